"""Duties that one server at a time does for all that share the database."""

from datetime import timedelta

import asyncpg

from skep.store.postgres.session import PostgresSession
from skep.store.postgres.sql import QUERIES


class LeaderTable:
    def __init__(self, session: PostgresSession) -> None:
        self._session = session

    async def acquire_leadership(self, name: str, seconds: float) -> bool:
        async def work(connection: asyncpg.Connection) -> bool:
            owner, lease = self._session.lane.owner, timedelta(seconds=seconds)
            return bool(await connection.fetch(QUERIES["acquire_leadership"], name, owner, lease))

        return await self._session.write(work)
