"""A backup is a copy of one instant, taken while work goes on."""

import asyncio
from pathlib import Path

import pytest

from skep.errors import Invalid
from skep.model.change import Change
from skep.model.consumer import ConsumerState
from skep.model.queue import Partition
from skep.store.rocksdb import keys
from skep.store.rocksdb.store import RocksStore
from tests.support.rocksdb_builders import (
    count_numbers,
    everything,
    fill,
    open_store,
    push_numbers,
    start,
)
from tests.support.store_builders import append_ids, consumer, crowd, payloads, purge_all, update


def transaction(alice: Partition, bob: Partition, n: int) -> Change:
    """The same message into two partitions, and a cursor that counts them."""
    return Change(
        appends=(append_ids(alice, f"{n}"), append_ids(bob, f"{n}")),
        consumers=(update(alice, n, ConsumerState(version=n + 1, cursor=n + 1)),),
    )


async def test_a_backup_holds_everything(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    await fill(store)
    before = await everything(store)

    await store.backup(tmp_path / "backup")
    await store.close()

    copy = open_store(tmp_path / "backup")
    assert await everything(copy) == before
    await copy.close()


async def test_the_copy_goes_on_with_a_removal_that_was_under_way(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    await fill(store, "kept")
    before = await everything(store)
    doomed = await crowd(store, "doomed", 1500)
    await store.delete_queue(doomed.number)
    await store.purge()

    await store.backup(tmp_path / "backup")
    await store.close()

    copy = open_store(tmp_path / "backup")
    assert await everything(copy) == before
    assert await purge_all(copy) > 1
    kept = {p.number for q in await copy.queues() for p in await copy.partitions(q.number)}
    assert {keys.unpack(at[:8]) for at, _ in copy._db.scan_segments(b"", b"\xff")} == kept
    await copy.close()


async def test_a_backup_under_load_is_a_prefix_of_whole_changes(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    queue = await fill(store)
    alice, bob = await store.create_partitions(queue.number, ["a", "b"])
    done = 0
    for done in range(100):
        await store.commit([transaction(alice, bob, done)])

    backup = asyncio.create_task(store.backup(tmp_path / "backup"))
    while not backup.done():
        done += 1
        await store.commit([transaction(alice, bob, done)])
        await asyncio.sleep(0)
    await backup
    await store.close()

    copy = open_store(tmp_path / "backup")
    kept = await payloads(copy, alice)
    state = await consumer(copy, alice)
    assert 100 <= len(kept) <= done + 1
    assert kept == [b"%d" % n for n in range(len(kept))]
    assert await payloads(copy, bob) == kept
    assert state == ConsumerState(version=len(kept), cursor=len(kept))
    assert await copy.find_offset(bob.number, f"{len(kept) - 1}") == len(kept) - 1
    assert await copy.find_offset(bob.number, f"{len(kept)}") is None
    await copy.close()


async def test_a_backup_and_its_store_go_their_own_ways(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    partition = await start(store)
    await push_numbers(store, partition, 0, 3)
    await store.backup(tmp_path / "backup")
    await push_numbers(store, partition, 3, 5)

    copy = open_store(tmp_path / "backup")
    await push_numbers(copy, partition, 3, 9)

    await store.close()
    await copy.close()
    assert await count_numbers(tmp_path / "store") == 5
    assert await count_numbers(tmp_path / "backup") == 9


async def test_only_its_owner_gets_into_a_store_and_a_backup(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir(mode=0o755)
    store = open_store(tmp_path / "store")

    await store.backup(tmp_path / "backup")

    await store.close()
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("store", "backup")]
    assert modes == [0o700, 0o700]


@pytest.fixture
def taken(tmp_path: Path) -> Path:
    """A place where something is already."""
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_bytes(b"precious")
    return tmp_path / "taken"


async def test_a_backup_to_a_place_that_is_taken_is_invalid_and_touches_nothing(
    tmp_path: Path, taken: Path
) -> None:
    store = open_store(tmp_path / "store")

    with pytest.raises(Invalid, match="exists already"):
        await store.backup(taken)

    assert (taken / "file").read_bytes() == b"precious"
    assert not (taken / "CURRENT").exists()
    await push_numbers(store, await start(store), 0, 1)
    await store.close()


async def test_a_second_backup_needs_a_place_of_its_own(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    await push_numbers(store, await start(store), 0, 2)
    await store.backup(tmp_path / "deep" / "down" / "backup")

    with pytest.raises(Invalid):
        await store.backup(tmp_path / "deep" / "down" / "backup")

    await store.close()
    assert await count_numbers(tmp_path / "deep" / "down" / "backup") == 2


async def test_a_backup_of_a_store_without_writes_opens(tmp_path: Path) -> None:
    store: RocksStore = open_store(tmp_path / "store")

    await store.backup(tmp_path / "backup")

    copy = open_store(tmp_path / "backup")
    assert (await copy.stats()).id == (await store.stats()).id
    await copy.close()
    await store.close()
