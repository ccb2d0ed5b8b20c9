"""Queues, partitions and subscriptions: made once, numbered once, found by name."""

import pytest
from msgspec.structs import replace

from skep.model.change import Change, Gone
from skep.model.consumer import ConsumerState
from skep.model.name import SECOND
from skep.model.queue import Partition, Queue, QueueOptions, Subscription
from skep.store.protocol import Store, StoredConsumer
from skep.testing.clock import ManualClock
from tests.support.store_builders import (
    APPLIED,
    UNKNOWN,
    appended,
    commit_one,
    consumer,
    fresh,
    make_partition,
    make_queue,
    push,
    update,
)


def subscription(
    queue: Queue, group: str, *, mode: str = "all", identity: str = ""
) -> Subscription:
    return Subscription(
        id=identity, queue=queue.number, group=group, mode=mode, from_at=None, created_at=1
    )


@pytest.fixture
async def orders(store: Store) -> Queue:
    """A queue that no group has seen yet."""
    return await make_queue(store, groups=())


async def test_a_new_store_is_empty(store: Store) -> None:
    assert await store.queues() == []


async def test_a_queue_gets_a_number_and_the_time_of_the_stores_clock(
    store: Store, clock: ManualClock
) -> None:
    asked = Queue(number=0, name="orders", namespace="shop", task="bill", created_at=5)

    made = await store.put_queue(asked)

    assert made.number > 0
    assert made == Queue(
        number=made.number,
        name="orders",
        namespace="shop",
        task="bill",
        created_at=clock.now(),
        version=made.version,
    )
    assert await store.queues() == [made]


async def test_a_queue_that_is_put_again_keeps_its_number_and_its_age(
    store: Store, clock: ManualClock, orders: Queue, alice: Partition
) -> None:
    await appended(store, push(alice, b"a"))
    clock.advance(60)
    options = QueueOptions(lease_time=7, encryption_enabled=True)

    again = await store.put_queue(Queue(number=0, name="orders", task="new", options=options))

    assert (again.number, again.created_at) == (orders.number, orders.created_at)
    assert (again.task, again.options) == ("new", options)
    assert await store.queues() == [again]
    assert [p.end for p in await store.partitions(orders.number)] == [1]


async def test_a_queue_that_is_only_to_be_made_stays_as_it_is(store: Store, orders: Queue) -> None:
    options = QueueOptions(lease_time=7)

    again = await store.put_queue(Queue(number=0, name="orders", options=options), replace=False)

    assert again == orders
    assert await store.queues() == [orders]


async def test_queues_differ_by_name_and_by_number(store: Store) -> None:
    names = ["a", "A", "ab", "a/b", "größe", "😀"]

    made = [await make_queue(store, name) for name in names]

    assert len({queue.number for queue in made}) == len(names)
    assert sorted(queue.name for queue in await store.queues()) == sorted(names)


async def test_partitions_are_answered_in_the_order_asked_and_made_where_there_was_none(
    store: Store, orders: Queue
) -> None:
    (known,) = await store.create_partitions(orders.number, ["b"])

    found = await store.create_partitions(orders.number, ["c", "b", "a"])

    assert [partition.name for partition in found] == ["c", "b", "a"]
    assert found[1] == known
    assert len({partition.number for partition in found}) == 3
    assert sorted(p.name for p in await store.partitions(orders.number)) == ["a", "b", "c"]


async def test_a_name_that_is_asked_twice_at_once_is_one_partition(
    store: Store, orders: Queue
) -> None:
    first, second = await store.create_partitions(orders.number, ["a", "a"])

    assert first == second
    assert list(await store.partitions(orders.number)) == [first]


async def test_a_new_partition_is_empty(store: Store, clock: ManualClock, orders: Queue) -> None:
    made = await make_partition(store, orders, "alice")

    assert (made.queue, made.name, made.created_at) == (orders.number, "alice", clock.now())
    assert (made.start, made.end, made.first_at, made.newest_at) == (0, 0, 0, 0)


async def test_asking_for_a_partition_that_has_messages_tells_its_end(
    store: Store, orders: Queue, alice: Partition
) -> None:
    await appended(store, push(alice, b"a", b"b"))

    found = await make_partition(store, orders, "alice")

    assert found == await fresh(store, alice)
    assert found.end == 2


async def test_the_same_partition_name_in_two_queues_is_two_partitions(
    store: Store, orders: Queue, alice: Partition
) -> None:
    other = await make_queue(store, "other", groups=())

    there = await make_partition(store, other, "alice")

    assert there.number != alice.number
    assert [p.number for p in await store.partitions(orders.number)] == [alice.number]
    assert [p.number for p in await store.partitions(other.number)] == [there.number]


@pytest.mark.parametrize("name", ["größe", "😀", "a b", "x" * 255, "\u202etxt"])
async def test_a_partition_may_have_any_name(store: Store, orders: Queue, name: str) -> None:
    made = await make_partition(store, orders, name)

    assert await make_partition(store, orders, name) == made
    assert [p.name for p in await store.partitions(orders.number)] == [name]


async def test_each_of_many_partitions_is_listed_once(store: Store, orders: Queue) -> None:
    names = [f"p{n}" for n in range(600)]

    await store.create_partitions(orders.number, names)

    listed = list(await store.partitions(orders.number))
    assert sorted(partition.name for partition in listed) == sorted(names)
    assert len({partition.number for partition in listed}) == 600


async def test_a_queue_that_is_not_there_is_empty_and_gets_no_partitions(store: Store) -> None:
    made = await store.create_partitions(UNKNOWN, ["a"])

    assert made == []
    assert list(await store.partitions(UNKNOWN)) == []
    assert list(await store.consumers(UNKNOWN)) == []
    assert await store.subscriptions(UNKNOWN) == []


async def test_the_first_contact_of_a_group_is_recorded_with_its_cursors(
    store: Store, clock: ManualClock, orders: Queue, alice: Partition
) -> None:
    contact = Subscription(
        queue=orders.number,
        group="billing",
        mode="timestamp",
        from_at=clock.now() - SECOND,
        created_at=clock.now(),
    )
    cursor = StoredConsumer(alice.number, "billing", ConsumerState(version=1, cursor=5))

    first = await store.subscribe(contact, [cursor])

    assert first is True
    assert await store.subscriptions(orders.number) == [contact]
    assert list(await store.consumers(orders.number)) == [cursor]


async def test_a_second_contact_of_a_group_changes_nothing(
    store: Store, orders: Queue, alice: Partition
) -> None:
    await store.subscribe(
        subscription(orders, "billing"),
        [StoredConsumer(alice.number, "billing", ConsumerState(version=1, cursor=5))],
    )

    second = await store.subscribe(
        subscription(orders, "billing", mode="new"),
        [StoredConsumer(alice.number, "billing", ConsumerState(version=1, cursor=9))],
    )

    assert second is False
    assert await store.subscriptions(orders.number) == [subscription(orders, "billing")]
    assert await consumer(store, alice) == ConsumerState(version=1, cursor=5)


async def test_groups_subscribe_to_each_queue_apart(store: Store, orders: Queue) -> None:
    other = await make_queue(store, "other", groups=())
    await store.subscribe(subscription(orders, "a"), [])

    found = [
        await store.subscribe(subscription(orders, "ab"), []),
        await store.subscribe(subscription(other, "a"), []),
    ]

    assert found == [True, True]
    assert sorted(s.group for s in await store.subscriptions(orders.number)) == ["a", "ab"]
    assert [s.group for s in await store.subscriptions(other.number)] == ["a"]


async def test_a_group_starts_with_more_cursors_than_postgresql_has_locks(
    store: Store, orders: Queue
) -> None:
    cursors = [StoredConsumer(number, "new", ConsumerState(version=1)) for number in range(20_000)]

    assert await store.subscribe(subscription(orders, "new"), cursors)

    assert len(list(await store.consumers(orders.number))) == 20_000


async def test_a_cursor_from_a_subscription_is_updated_by_its_version(
    store: Store, orders: Queue, alice: Partition
) -> None:
    await store.subscribe(
        subscription(orders, "billing"),
        [StoredConsumer(alice.number, "billing", ConsumerState(version=1, cursor=5))],
    )

    outcome = await commit_one(
        store, Change(consumers=(update(alice, 1, ConsumerState(version=2, cursor=6)),))
    )

    assert outcome == APPLIED
    assert await consumer(store, alice) == ConsumerState(version=2, cursor=6)


async def test_deleting_a_group_forgets_it_in_every_partition_and_nobody_else(
    store: Store, orders: Queue, alice: Partition, bob: Partition
) -> None:
    other = await make_queue(store, "other", groups=())
    there = await make_partition(store, other)
    everywhere = [
        StoredConsumer(partition.number, group, ConsumerState(version=1))
        for partition in (alice, bob)
        for group in ("a", "ab")
    ]
    elsewhere = StoredConsumer(there.number, "a", ConsumerState(version=1))
    for group in ("a", "ab"):
        own = [found for found in everywhere if found.group == group]
        await store.subscribe(subscription(orders, group), own)
    await store.subscribe(subscription(other, "a"), [elsewhere])

    await store.delete_group(orders.number, "a")

    kept = [found for found in everywhere if found.group == "ab"]
    assert sorted(await store.consumers(orders.number)) == kept
    assert [s.group for s in await store.subscriptions(orders.number)] == ["ab"]
    assert list(await store.consumers(other.number)) == [elsewhere]
    assert [s.group for s in await store.subscriptions(other.number)] == ["a"]


async def test_a_deleted_group_starts_again_as_if_it_had_never_been(
    store: Store, orders: Queue, alice: Partition
) -> None:
    cursor = StoredConsumer(alice.number, "billing", ConsumerState(version=1, cursor=5))
    await store.subscribe(subscription(orders, "billing"), [cursor])
    await store.delete_group(orders.number, "billing")

    again = await store.subscribe(subscription(orders, "billing", identity="2nd"), [])

    assert again is True
    first = replace(update(alice, 0, ConsumerState(version=1)), subscription="2nd")
    assert await commit_one(store, Change(consumers=(first,))) == APPLIED


async def test_a_state_of_a_group_that_was_deleted_is_not_written(
    store: Store, orders: Queue, alice: Partition
) -> None:
    await store.subscribe(subscription(orders, "billing"), [])
    await store.delete_group(orders.number, "billing")

    outcome = await commit_one(
        store, Change(consumers=(update(alice, 0, ConsumerState(version=1)),))
    )

    assert outcome == Gone()
    assert list(await store.consumers(orders.number)) == []


async def test_deleting_a_group_that_never_was_is_no_error(store: Store, orders: Queue) -> None:
    await store.delete_group(orders.number, "nobody")
    await store.delete_group(UNKNOWN, "nobody")

    assert await store.subscriptions(orders.number) == []


async def test_a_store_keeps_its_id(store: Store, orders: Queue, alice: Partition) -> None:
    before = (await store.stats()).id

    await appended(store, push(alice, b"a"))

    assert (await store.stats()).id == before
    assert before
