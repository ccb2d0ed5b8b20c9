"""A store with something of every kind in it, and all that can be read from one."""

from pathlib import Path

from skep.model.change import Append, Change
from skep.model.consumer import ConsumerState
from skep.model.dead_letter import DeadLetterFilter
from skep.model.queue import Partition, Queue, QueueOptions, Subscription
from skep.model.segment import Columns
from skep.store.protocol import Store
from skep.store.rocksdb.store import RocksStore
from skep.testing.clock import NOON, ManualClock
from tests.support.store_builders import (
    NO_LIMIT,
    TRACE,
    append,
    append_ids,
    columns,
    event,
    give_up,
    key,
    lease,
    push,
    unfold,
    update,
)

LOG = "000004.log"
"""The log of writes of a store that was opened once."""


def open_store(path: Path) -> RocksStore:
    return RocksStore(path, clock=ManualClock())


def payload(n: int) -> bytes:
    return b"payload-%04d" % n


async def start(store: Store) -> Partition:
    """The partition of a queue that ``push_numbers`` fills."""
    queue = await store.put_queue(Queue(number=0, name="numbers"))
    (partition,) = await store.create_partitions(queue.number, ["p"])
    return partition


def number(partition: Partition, n: int) -> Change:
    """The change that appends the ``n``-th message."""
    made = Columns(payloads=[payload(n)], transaction_ids=[f"t{n}"])
    return Change(
        appends=(Append(queue=partition.queue, partition=partition.number, columns=made),)
    )


async def push_numbers(store: Store, partition: Partition, start: int, stop: int) -> None:
    for n in range(start, stop):
        await store.commit([number(partition, n)])


async def count_numbers(path: Path) -> int:
    """Open, read every message by every way, check that they agree, and count them."""
    store = open_store(path)
    try:
        return await _count(store)
    finally:
        await store.close()


async def _count(store: Store) -> int:
    (queue,) = await store.queues()
    (partition,) = await store.partitions(queue.number)
    segments = await store.read(partition.number, 0, messages=NO_LIMIT, size=NO_LIMIT)
    found = [payload for segment in segments for payload in segment.columns.payloads]
    journal = await store.read_journal(queue.number, store.lane, 0, limit=NO_LIMIT)
    count = len(found)

    assert found == [payload(n) for n in range(count)]
    assert [list(s.columns.payloads) for s in journal] == [[one] for one in found]
    assert (partition.start, partition.end) == (0, count)
    assert await store.heads(queue.number) == ({store.lane: count} if count else {})
    assert [await store.find_offset(partition.number, f"t{n}") for n in range(count + 1)] == [
        *range(count),
        None,
    ]
    return count


async def fill(store: Store, name: str = "orders", segments: int = 3) -> Queue:
    """A queue that holds something of every kind."""
    queue = await store.put_queue(
        Queue(number=0, name=name, task="t", options=QueueOptions(lease_time=7))
    )
    alice, bob = await store.create_partitions(queue.number, ["alice", "bob"])
    for n in range(segments):
        made = columns(b"\x00%d" % n, ids=[f"ü{n}"], traces=[TRACE], producers=["p"])
        await store.commit([Change(appends=(append(alice, made),)), push(bob, b"b", b"")])
    await store.subscribe(
        Subscription(queue=queue.number, group="billing", mode="all", from_at=None, created_at=0),
        [],
    )
    await store.truncate(queue.number, alice.number, 1, kind="retention")
    held = ConsumerState(version=1, cursor=1, acked=((2, 3),), lease=lease(NOON + 9), attempt=1)
    await store.commit(
        [
            Change(
                appends=(append_ids(bob, "once"),),
                consumers=(update(alice, 0, held),),
                dead_letters=(give_up(alice, 1), give_up(bob, 0)),
                traces=(event(alice, 1, name, "story"),),
                key=key(name),
            )
        ]
    )
    await store.delete_message(queue.number, bob.number, 1)
    return queue


async def everything(store: Store) -> dict[str, object]:
    """All that a store can be asked for, in a form that compares and prints."""
    found: dict[str, object] = {
        "id": (await store.stats()).id,
        "names": await store.trace_names(limit=99),
        "story": await store.named_events("story", limit=99),
        "traced": await store.find_trace(TRACE, limit=99),
    }
    for queue in await store.queues():
        found[queue.name] = await _of_queue(store, queue)
    return found


async def _of_queue(store: Store, queue: Queue) -> list[object]:
    partitions = list(await store.partitions(queue.number))
    return [
        queue,
        partitions,
        [await _of_partition(store, partition) for partition in partitions],
        list(await store.consumers(queue.number)),
        await store.subscriptions(queue.number),
        await store.heads(queue.number),
        [
            (segment.partition, segment.start, segment.position)
            for segment in await store.read_journal(queue.number, store.lane, 0, limit=999)
        ],
        await store.dead_letters(DeadLetterFilter(queue=queue.number), limit=99),
        await store.removals(queue.number, limit=99),
        await store.find_outcome(key(queue.name)),
    ]


async def _of_partition(store: Store, partition: Partition) -> list[object]:
    segments = await store.read(partition.number, 0, messages=NO_LIMIT, size=NO_LIMIT)
    kept = [entry for segment in segments for entry in unfold(segment)]
    return [
        kept,
        [await store.find_offset(partition.number, entry.chosen_id or "") for entry in kept],
        [await store.trace_events(partition.number, entry.offset) for entry in kept],
    ]
