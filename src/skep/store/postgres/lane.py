"""The lane of a server: its own track of the journal, leased, and fenced by every commit.

The server that holds a lane is named in its row. Every commit that appends or publishes something
locks the row and compares the name, so a lane that was taken over is noticed before anything is
written, whatever the former holder believes. The lease only says when a lane may be taken over
without asking; it is renewed by commits, and while the server is idle.
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
"""How long a server that found no other one may rely on it."""
_ANNOUNCE_SECONDS = 1.5 * ALONE_SECONDS
"""How long a server that takes a lane beside others waits before it answers: so that none of them
still believes that it is alone."""
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
        # Before it is taken: whoever holds it until now may still believe to be alone.
        if await connection.fetchval(QUERIES["has_peers"], self.owner):
            self._announced_at = math.inf
        self.number = await connection.fetchval(QUERIES["take_lane"], self.owner, LEASE)
        self._renewed_at = time.monotonic()

    async def announce(self) -> None:
        """Return when every other server knows that this one has a lane.

        To be called after a commit and before its answer.
        """
        now = time.monotonic()
        if self._announced_at == math.inf:
            self._announced_at = now + _ANNOUNCE_SECONDS
        if self._announced_at > now:
            await asyncio.sleep(self._announced_at - now)

    def doubt(self) -> None:
        """A commit got no answer: what it published may be there, now or in a while."""
        self._doubt_until = time.monotonic() + LEASE.total_seconds()

    @property
    def in_doubt(self) -> bool:
        return time.monotonic() < self._doubt_until

    async def lock(self, connection: asyncpg.Connection) -> None:
        """Let no other transaction commit on it until this one ends."""
        if not await connection.fetch(QUERIES["lock_lane"], self.number, self.owner):
            await self.take(connection)

    @property
    def is_due(self) -> bool:
        """Whether the lease should be renewed."""
        return time.monotonic() - self._renewed_at > _RENEW_AFTER

    async def renew(self, connection: asyncpg.Connection) -> None:
        """Renew the lease, if it is time; within a transaction that has locked the lane."""
        if self.is_due:
            await connection.execute(QUERIES["renew_lane"], self.number, self.owner, LEASE)
            self._renewed_at = time.monotonic()

    async def keep(self, connection: asyncpg.Connection) -> None:
        """Renew the lease of a server that commits nothing; take a lane if it was lost."""
        await self.lock(connection)
        await self.renew(connection)

    async def give_back(self, connection: asyncpg.Connection) -> None:
        await connection.execute(QUERIES["give_lane_back"], self.owner)
