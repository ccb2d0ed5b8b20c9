"""What was answered is there again, after a close and after a crash."""

from pathlib import Path

import pytest
from rocksdict import WriteBatch

from skep.errors import Corrupted, SkepError
from skep.model.change import Applied, Change
from skep.model.dead_letter import DeadLetterFilter
from skep.store.rocksdb import keys
from skep.store.rocksdb.store import RocksStore
from tests.support.rocksdb_builders import everything, fill, number, open_store, push_numbers, start
from tests.support.rocksdb_child_process import run_child
from tests.support.store_builders import commit_one, key, placed, purge_all, removal


def kinds(store: RocksStore) -> set[str]:
    """The first letters of the keys that there are; ``S`` for segments."""
    entries = store._db.scan(b"", b"\xff")
    segments = store._db.scan_segments(b"", b"\xff")
    return {chr(name[0]) for name, _ in entries} | {"S" for _ in segments}


async def test_everything_is_there_after_a_close(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    await fill(store, "orders")
    await fill(store, "other")
    before = await everything(store)
    await store.close()

    store = open_store(tmp_path)

    assert await everything(store) == before
    await store.close()


async def test_everything_that_was_answered_is_there_after_a_crash(tmp_path: Path) -> None:
    (before,) = run_child("crash", tmp_path)

    store = open_store(tmp_path)

    assert str(await everything(store)) == before
    await store.close()


async def test_everything_is_there_after_many_opens(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    await fill(store)
    before = await everything(store)
    await store.close()

    for _ in range(5):
        store = open_store(tmp_path)
        await store.close()

    store = open_store(tmp_path)
    assert await everything(store) == before
    await store.close()


async def test_offsets_positions_and_ids_go_on_where_they_were(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    partition = await start(store)
    await push_numbers(store, partition, 0, 3)
    await store.close()

    store = open_store(tmp_path)
    outcomes = (await store.commit([number(partition, n) for n in (1, 3)])).outcomes

    assert outcomes == [
        Applied((placed(partition, [1], [0]),)),
        Applied((placed(partition, [3]),)),
    ]
    assert await store.heads(partition.queue) == {0: 4}
    await store.close()


async def test_a_change_that_happened_once_does_not_happen_again(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    partition = await start(store)
    once = Change(appends=number(partition, 0).appends, key=key())
    first = await commit_one(store, once)
    await store.close()

    store = open_store(tmp_path)
    again = await commit_one(store, once)

    assert isinstance(first, Applied)
    assert again == Applied(first.appended, repeated=True)
    await store.close()


async def test_numbers_are_not_given_again_after_what_had_them_is_gone(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    old = await fill(store)
    used = {old.number, *(p.number for p in await store.partitions(old.number))}
    await store.delete_queue(old.number)
    await store.close()

    store = open_store(tmp_path)
    new = await fill(store)

    assert new.number > max(used)
    assert min(p.number for p in await store.partitions(new.number)) > max(used)
    await store.close()


async def test_a_deleted_queue_leaves_no_key_behind(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    queue = await fill(store, segments=150)
    before = kinds(store)

    await store.delete_queue(queue.number)
    await purge_all(store)

    assert before == set("mqnpgchjtideuakorS")
    # What happened once stays known; the sweeper forgets it by age.
    assert kinds(store) == set("mko")
    await store.close()


async def test_a_removed_dead_letter_leaves_no_key_behind(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    queue = await fill(store)
    letters = await store.dead_letters(DeadLetterFilter(queue=queue.number), limit=9)

    await store.commit([Change(removals=tuple(map(removal, letters)))])

    assert letters
    assert kinds(store) & set("du") == set()
    await store.close()


async def test_a_queue_that_was_deleted_before_a_crash_is_purged_after_it_and_not_by_the_opening(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path)
    await fill(store, "kept")
    before = await everything(store)
    doomed = await fill(store, "doomed", segments=150)
    await store.delete_queue(doomed.number)
    await store.close()

    store = open_store(tmp_path)

    assert await everything(store) == before
    left = {keys.unpack(at[:8]) for at, _ in store._db.scan_segments(b"", b"\xff")}
    await purge_all(store)
    kept = {p.number for q in await store.queues() for p in await store.partitions(q.number)}
    assert left > kept
    assert {keys.unpack(at[:8]) for at, _ in store._db.scan_segments(b"", b"\xff")} == kept
    assert list(store._db.scan(b"x", b"y")) == []
    await store.close()


async def test_a_removal_that_a_crash_interrupted_goes_on_after_it(tmp_path: Path) -> None:
    (left,) = run_child("crash_deleting", tmp_path)

    store = open_store(tmp_path)

    assert 0 < int(left) < 1200
    assert [queue.name for queue in await store.queues()] == ["kept"]
    assert [n.name for n in await store.trace_names(limit=9)] == ["kept", "story"]
    await purge_all(store)
    kept = {p.number for q in await store.queues() for p in await store.partitions(q.number)}
    assert {keys.unpack(at[:8]) for at, _ in store._db.scan_segments(b"", b"\xff")} == kept
    assert [n.name for n in await store.trace_names(limit=9)] == ["kept", "story"]
    assert list(store._db.scan(b"x", b"y")) == []
    await store.close()


async def test_a_damaged_segment_does_not_stop_the_removal_of_its_queue(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    doomed = await fill(store, "doomed")
    (at, value), *_ = store._db.scan_segments(b"", b"\xff")
    batch = WriteBatch(raw_mode=True)
    batch.put(at, value[:-1], store._db.segments)
    store._db.write(batch)
    await store.delete_queue(doomed.number)

    await purge_all(store)

    assert list(store._db.scan_segments(b"", b"\xff")) == []
    assert list(store._db.scan(b"x", b"y")) == []
    await store.close()


async def test_a_store_of_a_later_format_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    await fill(store)
    batch = WriteBatch(raw_mode=True)
    batch.put(keys.about("format"), b"2")
    store._db.write(batch)
    await store.close()

    for _ in range(2):
        with pytest.raises(Corrupted, match="format 2, this version reads 1"):
            open_store(tmp_path)


async def test_the_directory_of_a_store_is_its_owners_alone(tmp_path: Path) -> None:
    store = open_store(tmp_path / "new" / "store")

    await store.close()

    assert (tmp_path / "new" / "store").stat().st_mode & 0o077 == 0


def test_a_path_that_is_no_directory_is_refused_with_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"not a store")

    with pytest.raises(SkepError):
        open_store(tmp_path / "file")


async def test_what_a_missing_queue_holds_is_kept_unless_it_was_deleted(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    queue = await fill(store)
    before = list(store._db.scan_segments(b"", b"\xff"))
    lost = WriteBatch(raw_mode=True)
    lost.delete(keys.queue_key(queue.number))
    store._db.write(lost)
    await store.close()

    store = open_store(tmp_path)

    assert before
    assert list(store._db.scan_segments(b"", b"\xff")) == before
    await store.close()
