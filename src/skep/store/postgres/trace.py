"""Trace events and their names, and the messages of a trace id, in PostgreSQL."""

from skep.model.name import MAX_NUMBER, Offset
from skep.model.trace import TraceEvent, TraceName
from skep.store.postgres import rows
from skep.store.postgres.nul_text import from_text, to_text
from skep.store.postgres.session import PostgresSession


class PostgresTraceTable:
    def __init__(self, session: PostgresSession) -> None:
        self._session = session

    async def find_trace(self, trace_id: bytes, *, limit: int) -> list[tuple[int, Offset]]:
        found = await self._session.fetch("find_trace", trace_id, limit)
        return [(row["partition"], row["at_offset"]) for row in found]

    async def trace_events(self, partition: int, offset: Offset) -> list[TraceEvent]:
        if offset > MAX_NUMBER:
            return []
        found = await self._session.fetch("trace_events", partition, offset)
        return list(map(rows.to_event, found))

    async def named_events(
        self, name: str, *, before: int | None = None, limit: int
    ) -> list[TraceEvent]:
        found = await self._session.fetch("named_events", to_text(name), before, limit)
        return list(map(rows.to_event, found))

    async def trace_names(self, *, after: str = "", limit: int) -> list[TraceName]:
        found = await self._session.fetch("trace_names", to_text(after), limit)
        return [
            TraceName(
                name=from_text(row["name"]),
                events=row["events"],
                messages=row["messages"],
                last_seen_at=row["last_seen_at"],
            )
            for row in found
        ]
