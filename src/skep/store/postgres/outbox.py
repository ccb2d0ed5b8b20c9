"""What applications pushed in their own transactions, and waits to be appended."""

from collections.abc import Collection

import asyncpg

from skep.model.outbox import Enqueued
from skep.store.postgres.nul_text import to_text
from skep.store.postgres.session import Opening
from skep.store.postgres.sql import QUERIES


class OutboxRows(Opening):
    async def enqueued(
        self, *, limit: int, size: int, payload_bytes: int, without: Collection[str] = ()
    ) -> list[Enqueued]:
        database = await self._db()
        found = await database.fetch("read_outbox", list(without), limit, size, payload_bytes)
        return [
            Enqueued(
                number=row[0],
                queue=row[1],
                partition=row[2],
                transaction_id=row[3],
                size=row[4],
                payload=row[5],
            )
            for row in found
        ]

    async def refuse_enqueued(self, number: int, reason: str) -> None:
        async def work(connection: asyncpg.Connection) -> None:
            await connection.execute(QUERIES["refuse_outbox"], number, to_text(reason))

        await (await self._db()).write(work)
