"""Where a sync is done: it must neither be late nor in the way."""

import threading
from collections.abc import Iterator
from time import perf_counter

import pytest

from skep.store.rocksdb.wal_sync import FAST, Syncer


class Disk:
    """Takes as long as it is told, and notes on which thread."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.threads: list[int] = []
        self.error: Exception | None = None

    def sync(self) -> None:
        until = perf_counter() + self.seconds
        while perf_counter() < until:
            pass
        self.threads.append(threading.get_ident())
        if self.error:
            raise self.error


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def syncer(disk: Disk) -> Iterator[Syncer]:
    syncer = Syncer(disk.sync)
    yield syncer
    syncer.close()


async def until_done(syncer: Syncer, times: int = 30) -> None:
    for _ in range(times):
        await syncer.sync()


async def test_a_fast_disk_is_waited_for_at_once(disk: Disk, syncer: Syncer) -> None:
    await until_done(syncer)

    assert disk.threads[-1] == threading.get_ident()


async def test_the_loop_goes_on_while_a_slow_disk_works(disk: Disk, syncer: Syncer) -> None:
    disk.seconds = 4 * FAST

    await until_done(syncer)

    assert threading.get_ident() not in disk.threads


async def test_a_disk_that_becomes_slow_gets_its_own_thread(disk: Disk, syncer: Syncer) -> None:
    await until_done(syncer)
    disk.seconds = 10 * FAST

    await until_done(syncer, 3)

    assert disk.threads[-1] != threading.get_ident()


@pytest.mark.parametrize("before", [0, 30], ids=["on the thread", "at once"])
async def test_what_fails_is_raised_wherever_it_is_done(
    disk: Disk, syncer: Syncer, before: int
) -> None:
    await until_done(syncer, before)
    disk.error = OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        await syncer.sync()
