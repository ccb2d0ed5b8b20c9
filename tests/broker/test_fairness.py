"""Which partition comes next: the one whose message waits longest, and every one in its turn."""

import pytest

from skep import Broker
from skep.testing.clock import ManualClock
from tests.support.broker_builders import drafts, offsets, partitions, places, pop


async def push_each(queue: Broker, clock: ManualClock, *names: str) -> None:
    """A message for each, a second apart."""
    for name in names:
        await queue.push("orders", drafts(1, name))
        clock.advance(1)


async def served(queue: Broker, pops: int, batch: int = 1) -> list[str]:
    """The partitions that one consumer after the other gets, each acking before the next."""
    found = []
    for _ in range(pops):
        delivery = await pop(queue, batch=batch)
        found += partitions(delivery)
        await queue.ack(delivery)
    return found


async def test_the_partition_whose_message_waits_longest_comes_first(
    queue: Broker, clock: ManualClock
) -> None:
    await push_each(queue, clock, "zoe", "alice", "mike")

    deliveries = [await pop(queue) for _ in range(3)]

    assert [partitions(delivery) for delivery in deliveries] == [["zoe"], ["alice"], ["mike"]]


@pytest.mark.one_server("how old a message is, is known exactly where it was pushed")
async def test_messages_come_oldest_first_across_partitions(
    queue: Broker, clock: ManualClock
) -> None:
    await push_each(queue, clock, "alice", "bob", "alice", "carol", "bob", "alice")

    found = await served(queue, 6)

    assert found == ["alice", "bob", "alice", "carol", "bob", "alice"]


@pytest.mark.one_server("how old a message is, is known exactly where it was pushed")
async def test_the_oldest_comes_first_for_auto_ack_pops_too(
    queue: Broker, clock: ManualClock
) -> None:
    await push_each(queue, clock, "alice", "bob", "alice", "bob")

    found = [partitions(await pop(queue, auto_ack=True)) for _ in range(4)]

    assert found == [["alice"], ["bob"], ["alice"], ["bob"]]


@pytest.mark.one_server("how old a message is, is known exactly where it was pushed")
async def test_a_pop_from_one_partition_does_not_change_the_turns_of_the_others(
    queue: Broker, clock: ManualClock
) -> None:
    await push_each(queue, clock, "alice", "bob", "carol", "alice")
    await queue.ack(await pop(queue, partition="alice"))

    found = await served(queue, 3)

    assert found == ["bob", "carol", "alice"]


async def test_a_partition_that_comes_back_is_as_old_as_its_message(
    queue: Broker, clock: ManualClock
) -> None:
    await push_each(queue, clock, "alice", "bob")
    await pop(queue, lease_seconds=10)
    clock.advance(10)

    found = await served(queue, 2)

    assert found == ["alice", "bob"]


async def test_partitions_whose_messages_are_equally_old_take_turns(queue: Broker) -> None:
    await queue.push("orders", [*drafts(5, "alice"), *drafts(5, "bob"), *drafts(5, "carol")])

    found = await served(queue, 6)

    assert sorted(found[:3]) == ["alice", "bob", "carol"]
    assert sorted(found[3:]) == ["alice", "bob", "carol"]


async def test_a_partition_with_a_huge_backlog_does_not_starve_those_beside_it(
    queue: Broker,
) -> None:
    names = [f"small-{number}" for number in range(5)]
    await queue.push("orders", drafts(5000, "huge"))
    await queue.push("orders", [draft for name in names for draft in drafts(1, name)])

    found = await served(queue, 10, batch=10)

    assert set(names) <= set(found)


async def test_while_a_huge_backlog_is_worked_on_the_others_are_served(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(5000, "huge"))
    clock.advance(1)
    await push_each(queue, clock, "alice", "bob")
    await pop(queue, batch=10)

    found = [partitions(await pop(queue, batch=10)) for _ in range(2)]

    assert found == [["alice"], ["bob"]]


async def test_a_partition_that_is_always_pushed_to_does_not_starve_the_others(
    queue: Broker, clock: ManualClock
) -> None:
    await push_each(queue, clock, "busy", "busy", "quiet")
    found = []
    for _ in range(6):
        found += await served(queue, 1)
        await push_each(queue, clock, "busy")

    assert "quiet" in found


# Several partitions in one pop.


async def test_a_pop_takes_as_many_partitions_as_it_asks_for(
    queue: Broker, clock: ManualClock
) -> None:
    await push_each(queue, clock, "alice", "bob", "carol", "dave")

    delivery = await pop(queue, batch=10, partitions=3)

    assert partitions(delivery) == ["alice", "bob", "carol"]


async def test_a_pop_takes_one_partition_unless_it_asks_for_more(
    queue: Broker, clock: ManualClock
) -> None:
    await push_each(queue, clock, "alice", "bob")

    delivery = await pop(queue, batch=10)

    assert partitions(delivery) == ["alice"]


async def test_a_batch_is_a_cap_on_all_partitions_together(
    queue: Broker, clock: ManualClock
) -> None:
    for name in ("alice", "bob", "carol"):
        await queue.push("orders", drafts(2, name))
        clock.advance(1)

    delivery = await pop(queue, batch=3, partitions=3)

    assert places(delivery) == [("alice", 0), ("alice", 1), ("bob", 0)]


async def test_partitions_that_a_full_batch_did_not_reach_are_not_leased(
    queue: Broker, clock: ManualClock
) -> None:
    for name in ("alice", "bob"):
        await queue.push("orders", drafts(2, name))
        clock.advance(1)
    await pop(queue, batch=2, partitions=2)

    delivery = await pop(queue, batch=2, partitions=2)

    assert places(delivery) == [("bob", 0), ("bob", 1)]


async def test_messages_of_each_partition_stay_in_order_in_a_delivery_of_several(
    queue: Broker,
) -> None:
    names = ["alice", "bob", "carol"]
    for number in range(4):
        await queue.push("orders", [d for name in names for d in drafts(1, name, first=number)])

    delivery = await pop(queue, batch=12, partitions=3)

    for name in names:
        assert [m.offset for m in delivery.messages if m.partition == name] == [0, 1, 2, 3]


async def test_a_pop_leaves_out_partitions_that_are_leased(
    queue: Broker, clock: ManualClock
) -> None:
    await push_each(queue, clock, "alice", "bob", "carol")
    await pop(queue)

    delivery = await pop(queue, batch=10, partitions=10)

    assert partitions(delivery) == ["bob", "carol"]


async def test_every_partition_of_many_is_served(queue: Broker) -> None:
    names = [f"p{number}" for number in range(500)]
    await queue.push("orders", [draft for name in names for draft in drafts(2, name)])

    found: list[tuple[str, int]] = []
    while delivery := await queue.pop("orders", batch=30, partitions=20):
        found += places(delivery)
        await queue.ack(delivery)

    assert len(found) == 1000
    assert set(found) == {(name, offset) for name in names for offset in (0, 1)}


async def test_consumers_that_never_ack_get_each_partition_once(queue: Broker) -> None:
    names = [f"p{number}" for number in range(50)]
    await queue.push("orders", [draft for name in names for draft in drafts(3, name)])

    deliveries = [await pop(queue, batch=3) for _ in names]

    assert sorted(p for each in deliveries for p in partitions(each)) == sorted(names)
    assert {tuple(offsets(each)) for each in deliveries} == {(0, 1, 2)}
    assert await queue.pop("orders", batch=3) is None
