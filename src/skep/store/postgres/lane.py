"""The lane of a server: its own track of the journal, leased, and fenced by every commit.

Whoever holds a lane has his name in its row. Who appends or tells something locks the row and looks
for his name, so a lane that was taken over is noticed before anything is written, whatever the
former holder believes. The lease only says when a lane may be taken over without asking; it is
renewed by commits, because a server that changes nothing needs no lane.
"""

import time
from datetime import timedelta
from uuid import uuid4

import asyncpg

from skep.store.postgres.sql import QUERIES

LEASE = timedelta(seconds=60)
_RENEW_AFTER = LEASE.total_seconds() / 3


class Lane:
    def __init__(self) -> None:
        self.number = -1
        self.owner = uuid4()
        self._renewed_at = 0.0
        self.told = 0
        """The number up to which all news on it are known to us, because we told them."""
        self._ahead: set[int] = set()
        self._doubt_until = 0.0
        self.told_before = 0
        """The number of the last that its former holder told."""

    async def take(self, connection: asyncpg.Connection) -> None:
        await connection.execute(QUERIES["lock_lanes"])
        await connection.execute(QUERIES["give_lane_back"], self.owner)
        self.number = await connection.fetchval(QUERIES["take_lane"], self.owner, LEASE)
        self.told = await connection.fetchval(QUERIES["news_head"], self.number)
        self.told_before = self.told
        self._ahead.clear()
        self._renewed_at = time.monotonic()

    def note(self, number: int | None) -> None:
        """News of this number, if any, are known here."""
        if number is None:
            return
        self._ahead.add(number)
        while self.told + 1 in self._ahead:
            self.told += 1
            self._ahead.remove(self.told)

    def is_known(self, number: int) -> bool:
        return number <= self.told or number in self._ahead

    def doubt(self) -> None:
        """A commit got no answer: what it tells may be there, now or in a while."""
        self._doubt_until = time.monotonic() + LEASE.total_seconds()

    @property
    def in_doubt(self) -> bool:
        return time.monotonic() < self._doubt_until

    async def lock(self, connection: asyncpg.Connection) -> None:
        """Let nobody else commit on it until this transaction ends."""
        if not await connection.fetch(QUERIES["lock_lane"], self.number, self.owner):
            await self.take(connection)

    @property
    def is_due(self) -> bool:
        """Whether the lease should be prolonged."""
        return time.monotonic() - self._renewed_at > _RENEW_AFTER

    async def renew(self, connection: asyncpg.Connection) -> None:
        """Keep it a while longer, if it is time; within a commit that has locked it."""
        if self.is_due:
            await connection.execute(QUERIES["renew_lane"], self.number, self.owner, LEASE)
            self._renewed_at = time.monotonic()

    async def give_back(self, connection: asyncpg.Connection) -> None:
        await connection.execute(QUERIES["give_lane_back"], self.owner)
