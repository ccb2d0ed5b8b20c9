"""Dead letters, traces, the outcomes of changes that happen once, and entries in PostgreSQL."""

from collections.abc import Sequence
from typing import Any

import asyncpg

from skep.model.change import IdempotencyKey, Outcome
from skep.model.dead_letter import DeadLetter, DeadLetterFilter
from skep.model.entry import Entry
from skep.model.name import MAX_NUMBER, Instant, Offset
from skep.model.trace import TraceEvent, TraceName
from skep.store.postgres import rows
from skep.store.postgres.nul_text import from_text, hash_of, to_text
from skep.store.postgres.session import Opening
from skep.store.postgres.sql import QUERIES
from skep.store.protocol import GivenUp


class LetterRows(Opening):
    async def dead_letters(
        self, which: DeadLetterFilter, *, before: int | None = None, limit: int
    ) -> list[DeadLetter]:
        database = await self._db()
        found = await database.fetch("dead_letters", *_asked(which), before, limit)
        return list(map(rows.to_letter, found))

    async def count_dead_letters(self, which: DeadLetterFilter) -> int:
        found: int = await (await self._db()).fetch_value("count_dead_letters", *_asked(which))
        return found

    async def find_dead_letter(self, queue: int, number: int) -> DeadLetter | None:
        found = await (await self._db()).fetch("find_dead_letter", queue, number)
        return rows.to_letter(found[0]) if found else None

    async def given_up(self, partition: int, start: Offset, stop: Offset) -> list[GivenUp]:
        bounds = min(start, MAX_NUMBER), min(stop, MAX_NUMBER)
        found = await (await self._db()).fetch("given_up", partition, *bounds)
        return [GivenUp(*row) for row in found]

    async def find_outcome(self, key: IdempotencyKey) -> Outcome | None:
        found = await (await self._db()).fetch("recorded_outcomes", [to_text(key.name)])
        return rows.to_recorded(found[0]).answer(key) if found else None

    async def forget_outcomes(self, before: Instant, *, limit: int) -> int:
        async def work(connection: asyncpg.Connection) -> int:
            return len(await connection.fetch(QUERIES["forget_outcomes"], before, limit))

        return await (await self._db()).write(work)


class TraceRows(Opening):
    async def trace_events(self, partition: int, offset: Offset) -> list[TraceEvent]:
        if offset > MAX_NUMBER:
            return []
        found = await (await self._db()).fetch("trace_events", partition, offset)
        return list(map(rows.to_event, found))

    async def named_events(
        self, name: str, *, before: int | None = None, limit: int
    ) -> list[TraceEvent]:
        found = await (await self._db()).fetch("named_events", to_text(name), before, limit)
        return list(map(rows.to_event, found))

    async def trace_names(self, *, after: str = "", limit: int) -> list[TraceName]:
        found = await (await self._db()).fetch("trace_names", to_text(after), limit)
        return [
            TraceName(name=from_text(row[0]), events=row[1], messages=row[2], last_seen_at=row[3])
            for row in found
        ]


class EntryRows(Opening):
    async def find_entries(self, space: str, wanted: Sequence[str]) -> list[Entry]:
        hashes = [hash_of(key) for key in wanted]
        found = await (await self._db()).fetch("find_entries", space, hashes)
        return list(map(rows.to_entry, found))

    async def list_entries(
        self, space: str, *, prefix: str = "", after: str = "", limit: int
    ) -> list[Entry]:
        found = await (await self._db()).fetch("list_entries", space, prefix, after, limit)
        return list(map(rows.to_entry, found))


def _asked(which: DeadLetterFilter) -> tuple[Any, ...]:
    return which.queue, which.group, which.partition, which.from_at, which.to_at
