"""The broker under test, driven from rules that are not asynchronous, and crashed at will."""

import asyncio
import shutil
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any, NamedTuple, TypeVar

from skep import Broker
from skep.store.memory import MemoryStore
from skep.store.protocol import Store
from skep.store.rocksdb.store import RocksStore
from skep.testing.clock import ManualClock

T = TypeVar("T")

NOTES = ("SYNCED",)
"""Files that are written after a sync: they may be behind the log, never ahead of it."""

_MEMORY = Path("/dev/shm")
_FAST = _MEMORY if _MEMORY.is_dir() else None
"""A crash is played with copies, so the disk need not be a real one."""


class Synced(NamedTuple):
    """What is on disk for sure: so much of the newest log, and what is said of it beside it."""

    log: str
    size: int
    notes: dict[str, bytes]


class BrokerDriver:
    """A broker with an event loop of its own. Every call ends with everything synced."""

    def __init__(self, *, on_disk: bool) -> None:
        self.clock = ManualClock()
        self._runner = asyncio.Runner()
        self._root = Path(mkdtemp(prefix="skep-machine-", dir=_FAST)) if on_disk else None
        self._path = Path()
        self._opened = 0
        self._synced = Synced("", 0, {})
        self.broker = self._open()

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        try:
            return self._runner.run(call)
        finally:
            self._note_synced()

    def close(self) -> None:
        self.run(self.broker.close())
        self._runner.close()
        if self._root:
            shutil.rmtree(self._root)

    def reopen(self) -> None:
        """Stop in good order and start again."""
        self.run(self.broker.close())
        self._opened -= 1
        self.broker = self._open()

    def crash(self, keep: float = 0) -> None:
        """Go on with what a power cut leaves: of what is not synced, this part of the bytes."""
        abandoned, crashed = self.broker, self._path
        self.broker = self._open(keep, crashed)
        self._runner.run(abandoned.close())
        shutil.rmtree(crashed)

    def crash_during(self, call: Coroutine[Any, Any, T], *, writes: int, keep: float) -> T | None:
        """Crash when a call has written so often; its result if it was answered before that."""
        task = self._runner.get_loop().create_task(call)
        self._runner.run(self._until_written(task, writes))
        answered = task.done()
        if answered:
            self._note_synced()
        self.crash(keep)
        # The abandoned process went on in the abandoned directory; nobody hears of it.
        self._runner.run(_end(task))
        return task.result() if answered else None

    async def _until_written(self, task: asyncio.Task[T], writes: int) -> None:
        """Stop in the turn of the loop after a write: its sync cannot have been answered yet."""
        size = _log_size(self._path)
        while writes and not task.done():
            await asyncio.sleep(0)
            if _log_size(self._path) != size:
                size, writes = _log_size(self._path), writes - 1

    def _open(self, keep: float = 0, crashed: Path | None = None) -> Broker:
        self._opened += 1
        if self._root:
            self._path = self._root / str(self._opened)
        if crashed:
            _copy(crashed, self._path, self._synced, keep)
        broker = self._make_broker(self._open_store())
        self.run(broker.__aenter__())
        return broker

    def _make_broker(self, store: Store) -> Broker:
        # Nothing happens by itself, so that the same steps always do the same.
        return Broker(store, sweep_interval=None, follow_interval=None, random=Random(0))

    def _open_store(self) -> Store:
        if self._root:
            return RocksStore(self._path, clock=self.clock)
        return MemoryStore(clock=self.clock)

    def _note_synced(self) -> None:
        if self._root and (log := _newest_log(self._path)):
            notes = {name: (self._path / name).read_bytes() for name in NOTES}
            self._synced = Synced(log.name, log.stat().st_size, notes)


async def _end(task: asyncio.Task[T]) -> None:
    await asyncio.wait([task])
    if not task.cancelled():
        task.exception()


def _newest_log(path: Path) -> Path | None:
    return max(path.glob("*.log"), default=None)


def _log_size(path: Path) -> int:
    log = _newest_log(path)
    return log.stat().st_size if log else 0


def _copy(source: Path, target: Path, synced: Synced, keep: float) -> None:
    """Copy a directory in use, without what its newest log of writes has not synced."""
    while True:
        # RocksDB may remove a file that it no longer needs: then what was copied is no instant.
        with suppress(OSError):
            before = _sizes(source)
            shutil.copytree(source, target)
            if _sizes(source) == before:
                break
        shutil.rmtree(target, ignore_errors=True)
    for name, note in synced.notes.items():
        (target / name).write_bytes(note)
    if log := _newest_log(target):
        safe = synced.size if log.name == synced.log else 0
        size = log.stat().st_size
        with log.open("r+b") as file:
            file.truncate(safe + int(keep * (size - safe)))


def _sizes(path: Path) -> dict[str, int]:
    return {file.name: file.stat().st_size for file in path.iterdir() if file.suffix != ".log"}
