"""Segments and the journal in PostgreSQL."""

from skep.model.journal import Range, SegmentPlace
from skep.model.name import MAX_NUMBER, Instant, Offset
from skep.model.segment import Segment
from skep.store.postgres.nul_text import hash_of
from skep.store.postgres.rows import Row, to_segment
from skep.store.postgres.session import PostgresSession


class PostgresLogTable:
    def __init__(self, session: PostgresSession) -> None:
        self._session = session

    async def read(
        self, partition: int, offset: Offset, *, messages: int, size: int
    ) -> list[Segment]:
        if offset > MAX_NUMBER:
            return []
        found = await self._session.fetch("read_segments", partition, offset, messages, size)
        return list(map(to_segment, found))

    async def find_offset(self, partition: int, transaction_id: str) -> Offset | None:
        found: Offset | None = await self._session.fetch_value(
            "find_offset", partition, hash_of(transaction_id)
        )
        return found

    async def offset_at(self, partition: int, moment: Instant) -> Offset:
        found: Offset = await self._session.fetch_value("offset_at", partition, moment)
        return found

    async def heads(self, queue: int) -> dict[int, int]:
        found = await self._session.fetch_all("heads", queue)
        return {row["lane"]: row["position"] for row in found}

    async def read_journal(
        self, queue: int, lane: int, position: int, *, limit: int, backwards: bool = False
    ) -> list[Segment]:
        name = "read_journal_backwards" if backwards else "read_journal"
        found = await self._session.fetch(name, queue, lane, min(position, MAX_NUMBER), limit)
        return list(map(to_segment, found))

    async def read_places(
        self, queue: int, lane: int, position: int, *, limit: int
    ) -> list[SegmentPlace]:
        found = await self._session.fetch(
            "read_places", queue, lane, min(position, MAX_NUMBER), limit
        )
        return [
            SegmentPlace(
                stands=Range(lane, row["position"], row["end_position"]),
                size=row["size"],
                created_at=row["created_at"],
                before=_to_previous(row),
            )
            for row in found
        ]


def _to_previous(row: Row) -> Range | None:
    if row["previous_lane"] is None:
        return None
    return Range(row["previous_lane"], row["previous_position"], row["previous_end"])
