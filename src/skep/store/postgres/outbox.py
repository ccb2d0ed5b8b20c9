"""The outbox: rows that applications insert in their own transactions, to be pushed."""

from collections.abc import Collection

import asyncpg

from skep.model.outbox import OutboxRow
from skep.store.postgres.nul_text import to_text
from skep.store.postgres.session import PostgresSession
from skep.store.postgres.sql import QUERIES


class OutboxTable:
    def __init__(self, session: PostgresSession) -> None:
        self._session = session

    async def outbox_rows(
        self, *, limit: int, size: int, payload_bytes: int, without: Collection[str] = ()
    ) -> list[OutboxRow]:
        found = await self._session.fetch("read_outbox", list(without), limit, size, payload_bytes)
        return [
            OutboxRow(
                number=row["number"],
                queue=row["queue"],
                partition=row["partition"],
                transaction_id=row["transaction_id"],
                size=row["size"],
                payload=row["payload"],
            )
            for row in found
        ]

    async def reject_outbox_row(self, number: int, reason: str) -> None:
        async def work(connection: asyncpg.Connection) -> None:
            await connection.execute(QUERIES["refuse_outbox"], number, to_text(reason))

        await self._session.write(work)
