"""The lane of a server: its own track of the journal, leased, and fenced by every commit.

The row of a lane names its owner. Every commit that appends or publishes locks the row and
compares the owner, so a server whose lane was taken over notices before it writes anything. The
lease only says when another server may take the lane over; commits renew it, and an idle server
does, too.
"""

import asyncio
import math
import time
from datetime import timedelta
from uuid import uuid4

import asyncpg

from skep.store.postgres.sql import QUERIES

LEASE = timedelta(seconds=60)
ALONE_SECONDS = 0.1
"""Seconds for which a server that found no peer may assume that there is none."""
_ANNOUNCE_SECONDS = 1.5 * ALONE_SECONDS
"""Seconds that a server with peers waits before its first answer on a new lane, so that none of
them still assumes that it is alone."""
_RENEW_AFTER = LEASE.total_seconds() / 3


class Lane:
    def __init__(self) -> None:
        self.number = -1
        self.owner = uuid4()
        self._renewed_at = 0.0
        self._doubt_until = 0.0
        self._announced_at = 0.0

    async def take(self, connection: asyncpg.Connection) -> None:
        await connection.execute(QUERIES["lock_lanes"])
        await connection.execute(QUERIES["give_lane_back"], self.owner)
        # Checked before the lane is taken: its former owner may still assume that it is alone.
        if await connection.fetchval(QUERIES["has_peers"], self.owner):
            self._announced_at = math.inf
        self.number = await connection.fetchval(QUERIES["take_lane"], self.owner, LEASE)
        self._renewed_at = time.monotonic()

    async def announce(self) -> None:
        """Wait until every other server knows that this one has a lane.

        To be called between a commit and its answer.
        """
        now = time.monotonic()
        if self._announced_at == math.inf:
            self._announced_at = now + _ANNOUNCE_SECONDS
        if self._announced_at > now:
            await asyncio.sleep(self._announced_at - now)

    def doubt(self) -> None:
        """Record that a commit got no answer: its event may appear later."""
        self._doubt_until = time.monotonic() + LEASE.total_seconds()

    @property
    def in_doubt(self) -> bool:
        return time.monotonic() < self._doubt_until

    async def lock(self, connection: asyncpg.Connection) -> None:
        """Lock the lane until the transaction ends; take another one if it was lost."""
        if not await connection.fetch(QUERIES["lock_lane"], self.number, self.owner):
            await self.take(connection)

    @property
    def is_due(self) -> bool:
        """Whether the lease should be renewed."""
        return time.monotonic() - self._renewed_at > _RENEW_AFTER

    async def renew(self, connection: asyncpg.Connection) -> None:
        """Renew the lease if it is due, in a transaction that has locked the lane."""
        if self.is_due:
            await connection.execute(QUERIES["renew_lane"], self.number, self.owner, LEASE)
            self._renewed_at = time.monotonic()

    async def keep(self, connection: asyncpg.Connection) -> None:
        """Renew the lease of an idle server; take another lane if it was lost."""
        await self.lock(connection)
        await self.renew(connection)

    async def give_back(self, connection: asyncpg.Connection) -> None:
        await connection.execute(QUERIES["give_lane_back"], self.owner)
