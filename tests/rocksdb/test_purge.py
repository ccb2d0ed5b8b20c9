"""What removing deleted queues and groups asks of RocksDB."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from rocksdict import WriteBatch

from skep.model.consumer import ConsumerState
from skep.model.queue import Queue, Subscription
from skep.store.protocol import StoredConsumer
from skep.store.rocksdb.context import RocksContext
from skep.store.rocksdb.purge import ROWS, purge
from skep.store.rocksdb.store import RocksStore
from tests.support.rocksdb_builders import fill, open_store
from tests.support.store_builders import TRACE, crowd, make_queue, purge_all, push


class Counted:
    """A batch that counts its operations."""

    def __init__(self) -> None:
        self.batch = WriteBatch(raw_mode=True)
        self.operations: Counter[str] = Counter()

    def delete(self, *arguments: Any) -> None:
        self.operations["delete"] += 1
        self.batch.delete(*arguments)

    def delete_range(self, *arguments: Any) -> None:
        self.operations["delete_range"] += 1
        self.batch.delete_range(*arguments)


async def removal_of(store: RocksStore, queue: Queue) -> list[Counter[str]]:
    """Delete a queue; what each step of its removal did."""
    await store.delete_queue(queue.number)
    steps: list[Counter[str]] = []
    progress: dict[bytes, bytes] = {}
    is_done = False
    while not is_done:
        counted = Counted()
        is_done = purge(store._db, cast(WriteBatch, counted), queue.number, progress)
        store._db.write(counted.batch)
        steps.append(counted.operations)
    del store._context.purging_queues[queue.number]
    return steps


async def test_a_small_queue_is_removed_without_deleting_a_range(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    queue = await fill(store)

    steps = await removal_of(store, queue)

    assert sum(steps, Counter()).keys() == {"delete"}
    await store.close()


async def test_the_number_of_deleted_ranges_does_not_depend_on_the_number_of_partitions(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path)
    ranges: list[int] = []
    for partitions in (1000, 3000):
        steps = await removal_of(store, await crowd(store, f"of-{partitions}", partitions))
        ranges.append(sum(step["delete_range"] for step in steps))

    # Names of partitions, states of consumers, the journal.
    assert ranges == [3, 3]
    await store.close()


async def test_a_step_deletes_a_bounded_number_of_rows(tmp_path: Path) -> None:
    store = open_store(tmp_path)

    steps = await removal_of(store, await crowd(store, "orders", 3000))

    # The rows of its partitions, and the partitions.
    assert max(step["delete"] for step in steps) <= 2 * ROWS
    assert sum(step["delete"] for step in steps) < 4 * 3000
    await store.close()


async def test_rows_of_many_bytes_make_steps_of_few_rows(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    queue = await fill(store)
    (partition, *_) = await store.partitions(queue.number)
    for _ in range(8):
        await store.commit([push(partition, bytes(1 << 19))])

    steps = await removal_of(store, queue)

    assert len(steps) > 4
    await store.close()


# Groups.

MANY = 3000


def contact(queue: Queue, identity: str = "1st") -> Subscription:
    return Subscription(
        id=identity, queue=queue.number, group="crowd", mode="new", from_at=None, created_at=0
    )


CURSORS = [StoredConsumer(number, "crowd", ConsumerState(version=1)) for number in range(MANY)]


def states_left(store: RocksStore) -> int:
    return sum(1 for _ in store._db.scan(b"c", b"d"))


async def test_states_of_a_group_are_written_and_removed_a_bounded_number_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    write = RocksContext.write

    def measured_write(context: RocksContext, batch: WriteBatch) -> None:
        sizes.append(batch.len())
        write(context, batch)

    monkeypatch.setattr(RocksContext, "write", measured_write)
    store = open_store(tmp_path)
    queue = await store.put_queue(Queue(number=0, name="orders"))

    await store.subscribe(contact(queue), CURSORS)
    await store.delete_group(queue.number, "crowd")
    assert states_left(store) == MANY
    await purge_all(store)

    assert states_left(store) == 0
    assert max(sizes) <= ROWS + 2
    await store.close()


async def test_the_removal_of_a_group_goes_on_after_a_restart(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    queue = await store.put_queue(Queue(number=0, name="orders"))
    await store.subscribe(contact(queue), CURSORS)
    await store.delete_group(queue.number, "crowd")
    await store.purge()
    await store.close()

    again = open_store(tmp_path)
    await again.subscribe(contact(queue, "2nd"), CURSORS[:10])
    await purge_all(again)

    assert states_left(again) == 10
    await again.close()


async def test_states_of_a_first_contact_that_a_crash_interrupted_are_removed(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path)
    queue = await store.put_queue(Queue(number=0, name="orders"))
    starting = asyncio.ensure_future(store.subscribe(contact(queue), CURSORS))
    await asyncio.sleep(0)
    assert 0 < states_left(store) < MANY
    crashed = tmp_path / "crashed"
    await store.backup(crashed)
    await starting
    await store.close()

    again = RocksStore(crashed)
    await purge_all(again)

    assert states_left(again) == 0
    assert await again.subscriptions(queue.number) == []
    await again.close()


async def test_a_look_up_of_a_trace_reads_no_more_when_many_queues_are_being_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    await fill(store)
    expected = await store.find_trace(TRACE, limit=99), await store.trace_names(limit=99)
    for number in range(50):
        await store.delete_queue((await make_queue(store, f"other-{number}", groups=())).number)
    asked: list[bytes] = []
    get_many = store._db.get_many

    def count(keys: Sequence[bytes]) -> list[bytes | None]:
        asked.extend(keys)
        return get_many(keys)

    monkeypatch.setattr(store._db, "get_many", count)

    found = await store.find_trace(TRACE, limit=99), await store.trace_names(limit=99)

    assert found == expected
    assert asked == []
    await store.close()
