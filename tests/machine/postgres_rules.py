"""The same rules on PostgreSQL: a server is lost before a statement, or before its answer."""

import asyncio
from collections.abc import Coroutine
from functools import wraps
from typing import Any, TypeVar

import asyncpg

from skep.errors import SkepError
from skep.store.postgres.store import PostgresStore
from skep.store.protocol import Store
from tests.machine.broker_driver import BrokerDriver
from tests.machine.crash_rules import CrashingMachine
from tests.support.postgres_databases import databases

T = TypeVar("T")


class LossyPostgresStore(PostgresStore):
    def die(self) -> None:
        """Be the store of a process that is gone: it speaks to nobody any more."""
        if self._session._connections:
            self._session._connections._closed = True


class Fuse:
    """Ends a store after so many of its statements, the last one executed or not."""

    left = -1
    executes_last = False
    store: LossyPostgresStore

    def light(self, store: LossyPostgresStore, statements: int, *, executes_last: bool) -> None:
        self.store, self.left, self.executes_last = store, statements, executes_last

    def put_out(self) -> None:
        self.left = -1

    def lay(self, name: str) -> None:
        """Count the calls of a method of the driver."""
        call = getattr(asyncpg.Connection, name)

        @wraps(call)
        async def counted(connection: asyncpg.Connection, *args: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left != -1:
                return await call(connection, *args, **options)
            if self.executes_last:
                await call(connection, *args, **options)
            self.store.die()
            connection.terminate()
            raise asyncpg.ConnectionDoesNotExistError("the process is gone")

        setattr(asyncpg.Connection, name, counted)


FUSE = Fuse()
for _name in ("execute", "executemany", "fetch", "fetchval", "copy_records_to_table"):
    FUSE.lay(_name)


class PostgresBrokerDriver(BrokerDriver):
    def __init__(self) -> None:
        self._url = databases().empty()
        super().__init__(on_disk=False)

    def crash(self, keep: float = 0) -> None:
        abandoned = self.broker
        self._store.die()
        databases().end_others()
        self.broker = self._open()
        self._runner.run(abandoned.close())

    def crash_during(self, call: Coroutine[Any, Any, T], *, writes: int, keep: float) -> T | None:
        """Crash at a statement of a call; its result if it had no so many."""
        FUSE.light(self._store, 3 * writes + int(10 * keep) % 3, executes_last=keep >= 0.5)
        task = self._runner.get_loop().create_task(call)
        self._runner.run(asyncio.wait([task]))
        FUSE.put_out()
        self.crash()
        error = task.exception()
        if error is None:
            return task.result()
        assert isinstance(error, SkepError)
        return None

    def _open_store(self) -> Store:
        self._store = LossyPostgresStore(self._url, clock=self.clock)
        return self._store


class PostgresMachine(CrashingMachine):
    def make_subject(self) -> BrokerDriver:
        return PostgresBrokerDriver()
