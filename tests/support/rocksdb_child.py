"""What another process does to a store: ``python -m tests.support.rocksdb_child WHAT PATH``.

It tells what happened, line by line, on its standard output.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from skep.errors import OutcomeUnknown, SkepError
from skep.model.change import Applied
from skep.model.queue import Queue
from skep.store.rocksdb import keys, wal_sync as syncer
from tests.support.rocksdb_builders import (
    count_numbers,
    everything,
    fill,
    number,
    open_store,
    push_numbers,
    start,
)
from tests.support.store_builders import commit_one

syncer.FAST = 0.0
"""All syncs on their thread: strace counts those of each thread by itself."""


def tell(line: object) -> None:
    os.write(1, f"{line}\n".encode())


async def hold(path: Path) -> None:
    """Own the store until the standard input ends."""
    store = open_store(path)
    tell("open")
    sys.stdin.read()
    await store.close()


async def crash(path: Path) -> None:
    """End without closing, right after the last write was answered."""
    store = open_store(path)
    await fill(store, "orders")
    await fill(store, "other")
    tell(await everything(store))
    os._exit(9)


async def crash_deleting(path: Path) -> None:
    """End in the middle of removing the queue ``doomed``; tell how many segments it has left."""
    store = open_store(path)
    await fill(store, "kept")
    doomed = await fill(store, "doomed", segments=1200)
    (alice, _) = await store.partitions(doomed.number)
    await store.delete_queue(doomed.number)
    await store.purge()
    whole = keys.pack(alice.number), keys.after(keys.pack(alice.number))
    tell(sum(1 for _ in store._db.scan_segments(*whole)))
    os._exit(9)


async def push(path: Path) -> None:
    """Push numbers, two at a time, and tell what each push was answered."""
    store = open_store(path)
    partition = await start(store)
    for n in range(0, 20, 2):
        done = await asyncio.gather(
            store.commit([number(partition, n)]),
            store.commit([number(partition, n + 1)]),
            return_exceptions=True,
        )
        for answer in done:
            tell(type(answer).__name__)
    try:
        await store.put_queue(Queue(number=0, name="late"))
    except SkepError as error:
        tell(type(error).__name__)
    os._exit(0)


async def reopen(path: Path) -> None:
    """Push until that fails, close, open again, and go on."""
    store = open_store(path)
    partition = await start(store)
    try:
        await push_numbers(store, partition, 0, 20)
    except OutcomeUnknown as error:
        tell(type(error).__name__)
    try:
        await store.close()
        store = open_store(path)
        tell(isinstance(await commit_one(store, number(partition, 99)), Applied))
    except Exception as error:
        tell(f"{type(error).__name__}: {error}")
    os._exit(0)


async def count(path: Path) -> None:
    """Tell how many numbers there are, or why that cannot be told."""
    try:
        tell(await count_numbers(path))
    except SkepError as error:
        tell(type(error).__name__)


WHAT: dict[str, Callable[[Path], Awaitable[None]]] = {
    one.__name__: one for one in (hold, crash, crash_deleting, push, reopen, count)
}


async def main() -> None:
    await WHAT[sys.argv[1]](Path(sys.argv[2]))


if __name__ == "__main__":
    asyncio.run(main())
