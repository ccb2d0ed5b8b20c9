"""A lease: the right of one consumer to a run of messages, until a time."""

import asyncio

import pytest

from skep import Broker, Verdict
from skep.errors import LeaseLost
from skep.model.name import QUEUE_MODE
from skep.testing.clock import ManualClock
from tests.support.broker_builders import (
    Settled,
    backlogs,
    cursors,
    drafts,
    lease_of,
    letters,
    moment,
    of,
    offsets,
    partitions,
    payloads,
    places,
    pop,
)

A_MICROSECOND = 0.000_001


async def test_a_leased_partition_is_hidden_from_the_rest_of_its_group(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    await pop(queue)

    second = await queue.pop("orders")

    assert second is None


async def test_messages_that_follow_a_leased_run_wait_for_it(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    delivery = await pop(queue)
    await queue.push("orders", drafts(1, first=1))

    meanwhile = await queue.pop("orders")
    await queue.ack(delivery)

    assert meanwhile is None
    assert payloads(await pop(queue)) == [b"1"]


async def test_a_leased_partition_leaves_the_others_to_the_group(queue: Broker) -> None:
    await queue.push("orders", [*drafts(1, "alice"), *drafts(1, "bob")])
    first = await pop(queue)

    second = await pop(queue)

    assert sorted(partitions(first) + partitions(second)) == ["alice", "bob"]
    assert first.lease_id != second.lease_id


async def test_a_delivery_says_when_its_lease_ends(queue: Broker, clock: ManualClock) -> None:
    await queue.push("orders", drafts(1))

    delivery = await pop(queue)

    assert delivery.expires_at == moment(clock, 300)
    assert delivery.lease_seconds == 300


async def test_a_lease_lasts_as_long_as_the_queue_says(queue: Broker, clock: ManualClock) -> None:
    await queue.queues.configure("orders", lease_time=20)
    await queue.push("orders", drafts(1))

    delivery = await pop(queue)

    assert delivery.expires_at == moment(clock, 20)
    assert delivery.lease_seconds == 20
    clock.advance(20)
    assert offsets(await pop(queue)) == [0]


async def test_a_pop_may_ask_for_a_lease_of_its_own_length(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure("orders", lease_time=20)
    await queue.push("orders", drafts(1))

    delivery = await pop(queue, lease_seconds=60)

    assert delivery.expires_at == moment(clock, 60)
    assert delivery.lease_seconds == 60
    clock.advance(59)
    assert await queue.pop("orders") is None


async def test_a_lease_holds_until_the_instant_it_ends(queue: Broker, clock: ManualClock) -> None:
    await queue.push("orders", drafts(1))
    delivery = await pop(queue, lease_seconds=10)
    clock.advance(10 - A_MICROSECOND)

    meanwhile = await queue.pop("orders")
    settlement = await queue.ack(delivery)

    assert meanwhile is None
    assert settlement.completed == 1


async def test_an_expired_lease_is_delivered_again_with_its_attempt_counted(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(2))
    first = await pop(queue, batch=2, lease_seconds=10)
    clock.advance(10)

    again = await pop(queue, batch=2)

    assert [message.attempt for message in first.messages] == [1, 1]
    assert [message.attempt for message in again.messages] == [2, 2]
    assert payloads(again) == payloads(first)
    assert again.lease_id != first.lease_id


async def test_the_attempt_begins_anew_with_the_next_messages(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(2))
    await pop(queue, lease_seconds=10)
    clock.advance(10)
    await queue.ack(await pop(queue))

    following = await pop(queue)

    assert [(m.offset, m.attempt) for m in following.messages] == [(1, 1)]


async def test_a_lease_that_expires_is_no_failure_however_often(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure("orders", retry_limit=0)
    await queue.push("orders", drafts(1))
    for _ in range(20):
        await pop(queue, lease_seconds=10)
        clock.advance(10)

    delivery = await pop(queue)

    assert [message.attempt for message in delivery.messages] == [21]
    assert await letters(queue) == []


async def test_a_run_comes_back_without_what_was_acked(queue: Broker, clock: ManualClock) -> None:
    await queue.push("orders", drafts(5))
    delivery = await pop(queue, batch=5, lease_seconds=10)
    await queue.ack(delivery, [delivery.messages[i] for i in (0, 2, 4)])
    clock.advance(10)

    again = await pop(queue, batch=5)

    assert offsets(again) == [1, 3]


async def test_a_run_comes_back_with_the_same_end_even_if_more_was_pushed(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(3))
    await pop(queue, batch=10, lease_seconds=10)
    await queue.push("orders", drafts(3, first=3))
    clock.advance(10)

    again = await pop(queue, batch=10)
    await queue.ack(again)
    following = await pop(queue, batch=10)

    assert [(m.offset, m.attempt) for m in again.messages] == [(0, 2), (1, 2), (2, 2)]
    assert [(m.offset, m.attempt) for m in following.messages] == [(3, 1), (4, 1), (5, 1)]


async def test_a_run_that_comes_back_may_be_taken_in_smaller_parts(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(5))
    delivery = await pop(queue, batch=5, lease_seconds=10)
    await queue.ack(delivery, delivery.messages[2:3])
    clock.advance(10)

    first = await pop(queue, batch=2)
    await queue.ack(first)
    rest = await pop(queue, batch=5)

    assert offsets(first) == [0, 1]
    assert offsets(rest) == [3, 4]


async def test_a_lease_is_over_when_its_last_message_is_acked(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    delivery = await pop(queue, batch=2)
    first = await queue.ack(delivery, delivery.messages[:1])
    meanwhile = await queue.pop("orders")

    last = await queue.ack(delivery, delivery.messages[1:])

    assert (first.released, meanwhile, last.released) == (False, None, True)
    assert offsets(await pop(queue)) == [2]


# Extending.


async def test_an_extended_lease_holds_until_its_new_end(queue: Broker, clock: ManualClock) -> None:
    await queue.push("orders", drafts(1))
    delivery = await pop(queue, lease_seconds=10)
    clock.advance(5)

    until = await queue.extend(delivery, 60)

    assert until == moment(clock, 60)
    clock.advance(60 - A_MICROSECOND)
    assert await queue.pop("orders") is None
    clock.advance(A_MICROSECOND)
    assert offsets(await pop(queue)) == [0]


async def test_an_extended_lease_can_be_acked_after_its_first_end(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(1))
    delivery = await pop(queue, lease_seconds=10)
    await queue.extend(delivery, 60)
    clock.advance(30)

    settlement = await queue.ack(delivery)

    assert settlement.completed == 1


async def test_an_extension_never_shortens_a_lease(queue: Broker, clock: ManualClock) -> None:
    await queue.push("orders", drafts(1))
    delivery = await pop(queue, lease_seconds=60)

    until = await queue.extend(delivery, 10)

    assert until == moment(clock, 60)
    clock.advance(59)
    assert await queue.pop("orders") is None


async def test_an_extension_covers_all_partitions_of_a_lease(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", [*drafts(1, "alice"), *drafts(1, "bob"), *drafts(1, "carol")])
    delivery = await pop(queue, batch=3, partitions=3, lease_seconds=10)
    await queue.ack(delivery, of(delivery, "alice"))
    await queue.extend(delivery, 60)
    clock.advance(59)

    meanwhile = await queue.pop("orders", batch=3, partitions=3)
    settlement = await queue.ack(delivery)

    assert meanwhile is None
    assert (settlement.completed, settlement.released) == (2, True)


async def test_an_extension_after_the_lease_expired_is_refused(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(1))
    delivery = await pop(queue, lease_seconds=10)
    clock.advance(10)

    with pytest.raises(LeaseLost) as lost:
        await queue.extend(delivery, 60)

    assert lost.value.lease_id == delivery.lease_id
    assert offsets(await pop(queue)) == [0]


async def test_an_extension_does_not_touch_the_lease_of_who_took_over(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(1))
    late = await pop(queue, lease_seconds=10)
    clock.advance(10)
    await pop(queue, lease_seconds=10)

    with pytest.raises(LeaseLost):
        await queue.extend(late, 60)

    clock.advance(10)
    assert offsets(await pop(queue)) == [0]


async def test_an_extension_of_a_lease_that_expires_before_its_commit_is_refused(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(1))
    delivery = await pop(queue, lease_seconds=10)
    extension = asyncio.create_task(queue.extend(delivery, 60))
    await asyncio.sleep(0)

    clock.advance(10)  # it is on its way, and the store judges by its own clock

    with pytest.raises(LeaseLost):
        await extension
    assert offsets(await pop(queue)) == [0]


async def test_a_lease_that_is_over_cannot_be_extended(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    delivery = await pop(queue)
    await queue.ack(delivery)

    with pytest.raises(LeaseLost):
        await queue.extend(delivery, 60)

    assert await backlogs(queue) == {"Default": 0}


@pytest.mark.one_server("servers know nothing of what is under way elsewhere")
async def test_a_lease_that_an_ack_on_its_way_ends_cannot_be_extended(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    delivery = await pop(queue)
    ack = asyncio.create_task(queue.ack(delivery))
    await asyncio.sleep(0)

    with pytest.raises(LeaseLost):
        await queue.extend(delivery, 60)

    assert (await ack).released


async def test_what_is_left_of_a_lease_can_be_extended_while_an_ack_of_a_part_is_on_its_way(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", [*drafts(1, "alice"), *drafts(1, "bob")])
    delivery = await pop(queue, batch=2, partitions=2, lease_seconds=10)
    ack = asyncio.create_task(queue.ack(delivery, of(delivery, "alice")))
    await asyncio.sleep(0)

    until = await queue.extend(delivery, 60)

    assert until == moment(clock, 60)
    assert not (await ack).released
    assert await backlogs(queue) == {"alice": 0, "bob": 1}


async def test_a_lease_may_be_extended_again_and_again(queue: Broker, clock: ManualClock) -> None:
    await queue.push("orders", drafts(1))
    delivery = await pop(queue, lease_seconds=10)

    for _ in range(10):
        clock.advance(9)
        await queue.extend(lease_of(delivery), 10)

    assert await queue.pop("orders") is None
    assert (await queue.ack(delivery)).completed == 1


# One lease over several partitions.


async def test_one_lease_may_span_several_partitions(queue: Broker, clock: ManualClock) -> None:
    await queue.push("orders", [*drafts(2, "alice"), *drafts(2, "bob")])

    delivery = await pop(queue, batch=4, partitions=2, lease_seconds=10)

    assert sorted(places(delivery)) == [("alice", 0), ("alice", 1), ("bob", 0), ("bob", 1)]
    assert delivery.expires_at == moment(clock, 10)
    assert await queue.pop("orders", batch=4, partitions=2) is None


async def test_acking_a_delivery_settles_all_its_partitions(queue: Broker) -> None:
    await queue.push("orders", [*drafts(2, "alice"), *drafts(3, "bob")])
    delivery = await pop(queue, batch=10, partitions=2)

    settlement = await queue.ack(delivery)

    assert (settlement.completed, settlement.released) == (5, True)
    assert await cursors(queue) == {"alice": 2, "bob": 3}


async def test_acking_all_partitions_one_by_one_releases_the_lease(queue: Broker) -> None:
    await queue.push("orders", [*drafts(1, "alice"), *drafts(1, "bob"), *drafts(1, "carol")])
    delivery = await pop(queue, batch=3, partitions=3)

    settlements = [
        await queue.ack(delivery, of(delivery, name)) for name in ("bob", "carol", "alice")
    ]

    assert [settlement.released for settlement in settlements] == [False, False, True]
    with pytest.raises(LeaseLost):
        await queue.extend(delivery, 60)


@pytest.mark.one_server("servers know nothing of what is under way elsewhere")
@pytest.mark.parametrize("way", ["fail", "ack", "ack by name"])
@pytest.mark.parametrize("at_once", [False, True], ids=["later", "at once"])
async def test_a_partition_that_the_lease_has_settled_may_be_named_again(
    queue: Broker, way: str, at_once: bool
) -> None:
    await queue.push("orders", [*drafts(1, "alice"), *drafts(1, "bob")])
    delivery = await pop(queue, batch=2, partitions=2)
    first = asyncio.create_task(queue.ack(delivery, of(delivery, "alice")))
    await (asyncio.sleep(0) if at_once else first)

    if way == "fail":
        settlement = await queue.fail(delivery, error="no")
    else:
        settlement = await queue.ack(delivery, delivery.messages if way == "ack by name" else None)

    assert settlement.completed == (0 if way == "fail" else 1)
    assert settlement.released
    assert (await first).completed == 1
    assert await backlogs(queue) == {"alice": 0, "bob": 1 if way == "fail" else 0}


async def test_an_ack_of_a_part_may_be_repeated_as_long_as_the_lease_holds_something(
    queue: Broker,
) -> None:
    await queue.push("orders", [*drafts(1, "alice"), *drafts(1, "bob")])
    delivery = await pop(queue, batch=2, partitions=2)
    await queue.ack(delivery, of(delivery, "alice"))

    again = await queue.ack(delivery, of(delivery, "alice"))

    assert again == Settled(completed=0, released=False)
    assert await queue.ack(delivery) == Settled(completed=1, released=True)


async def test_an_ack_of_a_part_cannot_be_repeated_when_the_rest_of_the_lease_has_run_out(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", [*drafts(1, "alice"), *drafts(1, "bob")])
    delivery = await pop(queue, batch=2, partitions=2, lease_seconds=10)
    await queue.ack(delivery, of(delivery, "alice"))
    clock.advance(10)

    with pytest.raises(LeaseLost):
        await queue.ack(delivery, of(delivery, "alice"))

    assert await backlogs(queue) == {"alice": 0, "bob": 1}


async def test_a_partition_that_somebody_else_has_taken_makes_an_ack_of_it_late(
    queue: Broker,
) -> None:
    await queue.push("orders", [*drafts(1, "alice"), *drafts(1, "bob"), *drafts(1, "carol")])
    delivery = await pop(queue, batch=3, partitions=3)
    await queue.ack(delivery, of(delivery, "alice"))
    await queue.groups.seek("orders", QUEUE_MODE, "beginning", partition="bob")

    with pytest.raises(LeaseLost):
        await queue.fail(delivery)

    assert await backlogs(queue) == {"alice": 0, "bob": 1, "carol": 1}


async def test_a_partition_is_free_as_soon_as_its_part_of_the_lease_is_acked(
    queue: Broker,
) -> None:
    await queue.push("orders", [*drafts(1, "alice"), *drafts(1, "bob")])
    delivery = await pop(queue, batch=2, partitions=2)
    await queue.push("orders", [*drafts(1, "alice", first=1), *drafts(1, "bob", first=1)])

    await queue.ack(delivery, of(delivery, "bob"))

    following = await pop(queue, batch=2, partitions=2)
    assert places(following) == [("bob", 1)]


async def test_when_a_lease_of_several_partitions_expires_only_what_is_open_comes_again(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", [*drafts(2, "alice"), *drafts(2, "bob")])
    delivery = await pop(queue, batch=4, partitions=2, lease_seconds=10)
    await queue.ack(delivery, [*of(delivery, "alice"), *of(delivery, "bob")[1:]])
    clock.advance(10)

    again = await pop(queue, batch=4, partitions=2)

    assert places(again) == [("bob", 0)]


async def test_what_the_holder_has_given_back_is_not_settled_by_a_later_ack(queue: Broker) -> None:
    await queue.push("orders", [*drafts(2, "alice"), *drafts(1, "bob")])
    delivery = await pop(queue, batch=3, partitions=2)
    back = of(delivery, "alice")[0]
    await queue.settle(delivery, [Verdict(back.partition_number, back.offset, "retry")])

    with pytest.raises(LeaseLost):
        await queue.ack(delivery, of(delivery, "alice"))

    assert (await queue.ack(delivery)).completed == 1
    assert await backlogs(queue) == {"alice": 2, "bob": 0}
