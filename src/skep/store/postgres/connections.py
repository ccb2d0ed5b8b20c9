"""Connections: one for commits, a few for everything else, and retries when one breaks."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import random
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

import asyncpg

from skep.errors import Closed, Invalid, SkepError, Unavailable
from skep.store.postgres.driver_errors import (
    DRIVER,
    LOST,
    RACES,
    BrokenConnection,
    Raced,
    message_of,
    unavailable_from,
)
from skep.store.postgres.sql import QUERIES
from skep.store.postgres.transaction import Work, transact

T = TypeVar("T")

_HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(:\d*)?")
_log = logging.getLogger("skep.store")

READERS = 4
"""Connections besides the one for commits; a call that finds none free waits."""
CONNECT_SECONDS = 5
COMMAND_SECONDS = 12
"""Longer than the lock timeout: what takes longer gets no answer at all, because the network drops
packets. TCP would notice only after a quarter of an hour."""
WHOLE_SECONDS = 40
"""The same for statements that return many rows; longer than the server's statement timeout."""
TRIES = 8
FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.5


class Connections:
    def __init__(self, url: str) -> None:
        self._address, self._pooled = split_url(url)
        self._idle: list[asyncpg.Connection] = []
        self._free = asyncio.Semaphore(READERS)
        self._writer: asyncpg.Connection | None = None
        self._writing = asyncio.Lock()
        self._closed = False
        self.timeline = ""
        """The timeline of the server that the last connection was made to."""
        self._accepted = ""

    async def fetch(self, name: str, *arguments: Any) -> list[asyncpg.Record]:
        """Read with one statement."""
        return await self.read(lambda connection: connection.fetch(QUERIES[name], *arguments))

    async def fetch_all(self, name: str, *arguments: Any) -> list[asyncpg.Record]:
        """Read with one statement that may return many rows and take long."""
        return await self.read(
            lambda connection: connection.fetch(QUERIES[name], *arguments, timeout=WHOLE_SECONDS)
        )

    async def fetch_value(self, name: str, *arguments: Any) -> Any:
        return await self.read(lambda connection: connection.fetchval(QUERIES[name], *arguments))

    async def read(self, work: Work[T]) -> T:
        """Read on a free connection.

        One that broke while it was idle fails only now: then another one is tried.
        """
        async with self._free, self._closing_idle_on_timeout():
            while True:
                was_idle = bool(self._idle)
                try:
                    async with self._reader() as connection:
                        return await work(connection)
                except LOST as error:
                    if not was_idle or isinstance(error, TimeoutError):
                        raise unavailable_from(error) from error
                except asyncpg.PostgresError as error:
                    raise unavailable_from(error) from error

    async def write(self, work: Work[T]) -> T:
        """Run ``work`` in a transaction on a free connection."""
        async with self._free, self._closing_idle_on_timeout():
            return await self._try(self._reader, work)

    async def commit(self, work: Work[T], *, at_once: Work[T | None] | None = None) -> T:
        """Run ``work`` in a transaction on the connection for commits, one at a time.

        ``at_once`` is tried before; it may commit in one statement. It depends on settings of the
        connection, so it is skipped if there is a pooler.
        """
        async with self._writing, self._closing_idle_on_timeout():
            self._check_timeline()
            writer = self._writer
            if at_once and not self._pooled and writer is not None and not writer.is_closed():
                done = await at_once(writer)
                if done is not None:
                    return done
            return await self._try(self._the_writer, work)

    async def close(self) -> None:
        self._closed = True
        idle, self._idle = self._idle, []
        for connection in idle:
            await _end(connection)
        # After the commit that is in progress.
        async with self._writing:
            if self._writer is not None:
                await _end(self._writer)

    async def _try(
        self,
        connect: Callable[[], AbstractAsyncContextManager[asyncpg.Connection]],
        work: Work[T],
    ) -> T:
        pause = FIRST_PAUSE
        for left in reversed(range(TRIES)):
            try:
                async with connect() as connection:
                    self._check_timeline()
                    return await transact(connection, work, pooled=self._pooled)
            except BrokenConnection as error:
                if not left:
                    raise Unavailable(f"no connection to PostgreSQL: {error.__cause__}") from error
            except (*RACES, Raced) as error:
                if not left:
                    raise Unavailable(f"PostgreSQL was too busy: {error!r}") from error
                # Jitter, so that the same transactions do not meet again.
                await asyncio.sleep(pause * (0.5 + random() / 2))
                pause = min(2 * pause, LONGEST_PAUSE)
        raise AssertionError("the last try returns or raises")

    @asynccontextmanager
    async def _closing_idle_on_timeout(self) -> AsyncIterator[None]:
        """Close idle connections as soon as one request got no answer at all.

        Else each of them would time out in turn, long after new connections work again.
        """
        try:
            yield
        except SkepError as error:
            if isinstance(error.__cause__, TimeoutError):
                self._close_idle()
            raise

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().terminate()
        if self._writer is not None and not self._writing.locked():
            self._writer.terminate()

    @asynccontextmanager
    async def _reader(self) -> AsyncIterator[asyncpg.Connection]:
        connection = self._idle.pop() if self._idle else await self._connect()
        try:
            yield connection
        except (*LOST, asyncio.CancelledError):
            connection.terminate()
            raise
        finally:
            if not connection.is_closed() and not self._closed:
                self._idle.append(connection)
            else:
                connection.terminate()

    @asynccontextmanager
    async def _the_writer(self) -> AsyncIterator[asyncpg.Connection]:
        if self._writer is None or self._writer.is_closed():
            self._writer = await self._connect()
        yield self._writer

    async def _connect(self) -> asyncpg.Connection:
        if self._closed:
            raise Closed
        try:
            connection = await asyncpg.connect(
                self._address,
                timeout=CONNECT_SECONDS,
                command_timeout=COMMAND_SECONDS,
                statement_cache_size=0 if self._pooled else 200,
            )
            await self._begin(connection)
        except (*DRIVER, ValueError) as error:
            raise Unavailable(f"no connection to PostgreSQL: {message_of(error)}") from error
        return connection

    async def _begin(self, connection: asyncpg.Connection) -> None:
        try:
            if not self._pooled:
                await connection.fetch(QUERIES["settings"], False)
            self.timeline = await _timeline(connection) or self.timeline
            self._accepted = self._accepted or self.timeline
            if self._closed:
                raise Closed
        except BaseException:
            # There is no other reference to it yet.
            connection.terminate()
            raise

    def accept(self, timeline: str) -> None:
        """Accept writes on that timeline."""
        self._accepted = timeline

    def _check_timeline(self) -> None:
        """Raise ``Unavailable`` after a failover, until the state was reloaded."""
        if self.timeline != self._accepted:
            raise Unavailable("PostgreSQL failed over; the state is being reloaded")


async def _end(connection: asyncpg.Connection) -> None:
    try:
        await connection.close(timeout=2)
    except DRIVER as error:
        _log.warning("could not close a PostgreSQL connection cleanly: error=%s", error)


async def _timeline(connection: asyncpg.Connection) -> str | None:
    try:
        found: str | None = await connection.fetchval(QUERIES["timeline"])
    except asyncpg.PostgresError:
        return None
    return found


def split_url(url: str) -> tuple[str, bool]:
    """The URL for the driver, and whether there is a pooler before the database.

    With ``?pooled=yes`` each transaction may run on another, shared connection: no prepared
    statement or setting of a connection may be expected in the next transaction, or left behind.
    """
    hosts = urlsplit(url).netloc.rpartition("@")[2].split(",")
    if not all(map(_HOST.fullmatch, hosts)):
        # The message omits the URL: the invalid port may be a part of the password.
        reason = "is not a valid URL; write / : @ and # in a password as %2F %3A %40 and %23"
        raise Invalid("store", reason)
    address, _, options = url.partition("?")
    query = dict(parse_qsl(options, keep_blank_values=True))
    pooled = query.pop("pooled", "no")
    if pooled not in ("yes", "no"):
        raise Invalid("store", f"pooled must be yes or no, not {pooled!r}")
    return f"{address}?{urlencode(query)}" if query else address, pooled == "yes"
