"""What all parts of the store have in common: the database, opened when it is first needed."""

import asyncio
import logging
from collections.abc import Sequence

import asyncpg

from skep.errors import Closed, SkepError
from skep.model.name import Instant
from skep.store.clock import Clock
from skep.store.postgres.clock import DatabaseClock
from skep.store.postgres.connections import Connections, split_url
from skep.store.postgres.lane import Lane
from skep.store.postgres.migrate import apply
from skep.store.postgres.orphan import check_ownerless
from skep.store.postgres.sql import QUERIES
from skep.store.protocol import Gauge

_log = logging.getLogger("skep.store")


class Opening:
    """The base of the files that each hold one kind of rows; ``PostgresStore`` is all of them.

    A store is made without waiting for anything, so it is opened by the first who asks it for
    something, and by the next one if that failed.
    """

    failure: str | None = None

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        split_url(url)  # a URL that cannot be right is refused now, not when it is needed
        self._url = url
        self._told = DatabaseClock()
        self._given = clock
        self.clock: Clock = clock or self._told
        self._lane = Lane()
        self.lane = self._lane.number
        self._database: Connections | None = None
        self._opening = asyncio.Lock()
        self._closed = False

    async def _db(self) -> Connections:
        """The database, opened."""
        if self._database is not None:
            return self._database
        async with self._opening:
            if self._closed:
                raise Closed
            if self._database is None:
                self._database = await self._open()
            return self._database

    async def _open(self) -> Connections:
        database = Connections(self._url)
        try:
            await database.read(apply)
            await database.read(check_ownerless)
            await database.write(self._lane.take)
            await database.read(self._look_at_the_clock)
        except BaseException:
            await database.close()
            raise
        self.lane = self._lane.number
        return database

    def gauges(self) -> Sequence[Gauge]:
        return ()

    @property
    def history(self) -> str:
        return self._database.timeline if self._database else ""

    async def accept_history(self, history: str) -> None:
        database = await self._db()
        database.accept(history)
        # What our lane told may not have been told.
        await database.write(self._lane.take)

    async def _look_at_the_clock(self, connection: asyncpg.Connection) -> None:
        asked_at = self._told.steady()
        self._told.learn(await connection.fetchval(QUERIES["now"]), asked_at)

    def _time(self, told: Instant, asked_at: Instant) -> Instant:
        """The time of a commit, to which the database said ``told``."""
        self._told.learn(told, asked_at)
        return told if self._given is None else self._given.now()

    async def close(self) -> None:
        async with self._opening:
            self._closed = True
            database, self._database = self._database, None
        if database is not None:
            await self._leave(database)

    async def _leave(self, database: Connections) -> None:
        try:
            await database.write(self._lane.give_back)
        except SkepError as error:
            # It will be taken over once its lease has run out.
            _log.warning("lane %d was not given back: %s", self.lane, error)
        finally:
            await database.close()
