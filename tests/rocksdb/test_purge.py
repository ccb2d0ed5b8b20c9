"""What removing a deleted queue asks of RocksDB."""

from collections import Counter
from pathlib import Path
from typing import Any, cast

from rocksdict import WriteBatch

from skep.model.queue import Queue
from skep.store.rocksdb.purge import ROWS, purge
from skep.store.rocksdb.store import RocksStore
from tests.rocksdb.build import fill, open_store
from tests.store.build import crowd, push


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
    del store._removing[queue.number]
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
