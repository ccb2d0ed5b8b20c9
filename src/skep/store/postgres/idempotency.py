"""The outcomes of changes with an idempotency key, in PostgreSQL."""

import asyncpg

from skep.model.change import IdempotencyKey, Outcome
from skep.model.name import Instant
from skep.store.postgres import rows
from skep.store.postgres.nul_text import to_text
from skep.store.postgres.session import PostgresSession
from skep.store.postgres.sql import QUERIES


class PostgresIdempotencyTable:
    def __init__(self, session: PostgresSession) -> None:
        self._session = session

    async def find_outcome(self, key: IdempotencyKey) -> Outcome | None:
        found = await self._session.fetch("recorded_outcomes", [to_text(key.name)])
        return rows.to_recorded(found[0]).answer(key) if found else None

    async def forget_outcomes(self, before: Instant, *, limit: int) -> int:
        async def work(connection: asyncpg.Connection) -> int:
            return len(await connection.fetch(QUERIES["forget_outcomes"], before, limit))

        return await self._session.write(work)
