"""Dead letters in PostgreSQL."""

from typing import Any

from skep.model.dead_letter import DeadLetter, DeadLetterFilter
from skep.model.name import MAX_NUMBER, Offset
from skep.store.postgres import rows
from skep.store.postgres.session import PostgresSession
from skep.store.protocol import GivenUp


class PostgresDeadLetterTable:
    def __init__(self, session: PostgresSession) -> None:
        self._session = session

    async def dead_letters(
        self, which: DeadLetterFilter, *, before: int | None = None, limit: int
    ) -> list[DeadLetter]:
        found = await self._session.fetch("dead_letters", *_arguments(which), before, limit)
        return list(map(rows.to_letter, found))

    async def count_dead_letters(self, which: DeadLetterFilter) -> int:
        found: int = await self._session.fetch_value("count_dead_letters", *_arguments(which))
        return found

    async def find_dead_letter(self, queue: int, number: int) -> DeadLetter | None:
        found = await self._session.fetch("find_dead_letter", queue, number)
        return rows.to_letter(found[0]) if found else None

    async def given_up(self, partition: int, start: Offset, stop: Offset) -> list[GivenUp]:
        bounds = min(start, MAX_NUMBER), min(stop, MAX_NUMBER)
        found = await self._session.fetch("given_up", partition, *bounds)
        return [GivenUp(row["at_offset"], row["consumer_group"], row["number"]) for row in found]


def _arguments(which: DeadLetterFilter) -> tuple[Any, ...]:
    return which.queue, which.group, which.partition, which.from_at, which.to_at
