"""What the tables share: the database, opened when it is first needed, its clock and our lane."""

import asyncio
import logging
from typing import Any, TypeVar

import asyncpg

from skep.errors import Closed, SkepError
from skep.model.name import Instant
from skep.store.clock import Clock
from skep.store.postgres.clock import DatabaseClock
from skep.store.postgres.connections import Connections, split_url
from skep.store.postgres.lane import Lane
from skep.store.postgres.migrate import apply
from skep.store.postgres.orphan import check_orphans
from skep.store.postgres.sql import QUERIES
from skep.store.postgres.transaction import Work

_log = logging.getLogger("skep.store")

T = TypeVar("T")


class PostgresSession:
    """The database of one store; every table has a reference to it.

    A store is created without waiting for anything, so the first call that needs the database
    opens it, and the next one tries again if that failed.
    """

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        split_url(url)  # reject an invalid URL now, not at the first call
        self._url = url
        self.database_clock = DatabaseClock()
        self._given_clock = clock
        self.clock: Clock = clock or self.database_clock
        self.lane = Lane()
        self._connections: Connections | None = None
        self._opening = asyncio.Lock()
        self._closed = False

    async def connections(self) -> Connections:
        """The connections to the database, which is opened and migrated."""
        if self._connections is not None:
            return self._connections
        async with self._opening:
            if self._closed:
                raise Closed
            if self._connections is None:
                self._connections = await self._open()
            return self._connections

    async def fetch(self, name: str, *arguments: Any) -> list[asyncpg.Record]:
        """Read with one statement."""
        return await (await self.connections()).fetch(name, *arguments)

    async def fetch_all(self, name: str, *arguments: Any) -> list[asyncpg.Record]:
        """Read with one statement that may return many rows and take long."""
        return await (await self.connections()).fetch_all(name, *arguments)

    async def fetch_value(self, name: str, *arguments: Any) -> Any:
        return await (await self.connections()).fetch_value(name, *arguments)

    async def write(self, work: Work[T]) -> T:
        """Run ``work`` in a transaction beside the commits."""
        return await (await self.connections()).write(work)

    async def _open(self) -> Connections:
        connections = Connections(self._url)
        try:
            await connections.read(apply)
            await connections.read(check_orphans)
            await connections.write(self.lane.take)
            await connections.read(self._read_clock)
        except BaseException:
            await connections.close()
            raise
        return connections

    @property
    def timeline(self) -> str:
        return self._connections.timeline if self._connections else ""

    async def accept_timeline(self, timeline: str) -> None:
        connections = await self.connections()
        connections.accept(timeline)
        # Events of our lane may be lost with the former primary.
        await connections.write(self.lane.take)

    async def _read_clock(self, connection: asyncpg.Connection) -> None:
        asked_at = self.database_clock.steady()
        self.database_clock.learn(await connection.fetchval(QUERIES["now"]), asked_at)

    def commit_time(self, database_time: Instant, asked_at: Instant) -> Instant:
        """The time of a commit during which the database returned ``database_time``."""
        self.database_clock.learn(database_time, asked_at)
        return database_time if self._given_clock is None else self._given_clock.now()

    async def close(self) -> None:
        async with self._opening:
            self._closed = True
            connections, self._connections = self._connections, None
        if connections is not None:
            await self._leave(connections)

    async def _leave(self, connections: Connections) -> None:
        try:
            await connections.write(self.lane.give_back)
        except SkepError as error:
            # Another server takes the lane over when its lease has expired.
            _log.warning("could not release the lane: lane=%d error=%s", self.lane.number, error)
        finally:
            await connections.close()
