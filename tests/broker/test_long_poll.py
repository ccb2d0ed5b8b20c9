"""Long polls: who waits is woken when there is something, and nobody else is."""

import asyncio

import pytest

from skep import Broker, Delivery, Push, Verdict
from skep.testing.clock import ManualClock
from tests.support.broker_builders import (
    PATIENCE,
    drafts,
    finish,
    long_poll,
    make_broker,
    offsets,
    partitions,
    payloads,
    pop,
    pop_all,
    turn,
)
from tests.support.gated_store import GatedStore


def done(polls: list[asyncio.Task[Delivery | None]]) -> list[bool]:
    return [poll.done() for poll in polls]


async def test_a_poll_waits_for_a_message(queue: Broker) -> None:
    await queue.queues.configure("orders")
    poll = await long_poll(queue)

    await queue.push("orders", drafts(1))

    assert offsets(await poll) == [0]


async def test_a_poll_that_finds_something_does_not_wait(queue: Broker) -> None:
    await queue.push("orders", drafts(1))

    delivery = await pop(queue, wait=30)

    assert offsets(delivery) == [0]


async def test_a_poll_gives_up_when_its_time_is_over(queue: Broker, clock: ManualClock) -> None:
    await queue.queues.configure("orders")
    poll = await long_poll(queue, wait=30)
    clock.advance(29.9)
    await turn()
    meanwhile = poll.done()

    clock.advance(0.1)

    assert await poll is None
    assert not meanwhile


async def test_a_poll_waits_for_a_queue_that_does_not_exist_yet(queue: Broker) -> None:
    poll = await long_poll(queue)

    await queue.push("orders", drafts(1))

    assert offsets(await poll) == [0]


async def test_a_poll_for_a_queue_that_never_comes_gives_up(
    queue: Broker, clock: ManualClock
) -> None:
    poll = await long_poll(queue, wait=30)

    clock.advance(30)

    assert await poll is None


async def test_a_poll_waits_for_its_partition_only(queue: Broker, clock: ManualClock) -> None:
    await queue.push("orders", drafts(1, "bob"))
    await pop_all(queue)
    poll = await long_poll(queue, partition="bob", wait=30)

    await queue.push("orders", drafts(1, "alice"))
    await turn()
    meanwhile = poll.done()
    await queue.push("orders", drafts(1, "bob"))

    assert not meanwhile
    assert partitions(await poll) == ["bob"]


async def test_a_poll_waits_for_a_partition_that_does_not_exist_yet(queue: Broker) -> None:
    await queue.queues.configure("orders")
    poll = await long_poll(queue, partition="bob")

    await queue.push("orders", drafts(1, "alice"))
    await queue.push("orders", drafts(1, "bob"))

    assert partitions(await poll) == ["bob"]


async def test_a_poll_waits_for_a_partition_of_a_queue_that_does_not_exist_yet(
    queue: Broker,
) -> None:
    poll = await long_poll(queue, partition="bob")

    await queue.push("orders", drafts(1, "bob"))

    assert partitions(await poll) == ["bob"]


async def test_a_poll_hears_of_a_push_in_a_transaction(queue: Broker) -> None:
    await queue.queues.configure("orders")
    poll = await long_poll(queue)

    await queue.transact([Push("orders", drafts(1))])

    assert offsets(await poll) == [0]


async def test_a_message_wakes_one_of_those_who_wait(queue: Broker, clock: ManualClock) -> None:
    await queue.queues.configure("orders")
    polls = [await long_poll(queue, wait=30) for _ in range(3)]

    await queue.push("orders", drafts(1))

    await finish(polls[0])
    await turn()
    assert done(polls) == [True, False, False]
    clock.advance(30)
    assert [await poll for poll in polls[1:]] == [None, None]


async def test_each_partition_that_is_ready_wakes_one(queue: Broker, clock: ManualClock) -> None:
    await queue.queues.configure("orders")
    polls = [await long_poll(queue, wait=30) for _ in range(3)]

    await queue.push("orders", [*drafts(5, "alice"), *drafts(5, "bob")])

    first, second = await finish(polls[0]), await finish(polls[1])
    await turn()
    assert done(polls) == [True, True, False]
    assert sorted(partitions(first) + partitions(second)) == ["alice", "bob"]
    clock.advance(30)
    assert await polls[2] is None


async def test_who_waits_longest_is_served_first(queue: Broker) -> None:
    await queue.queues.configure("orders")
    polls = [await long_poll(queue) for _ in range(3)]

    served: list[list[str]] = []
    for name in ("alice", "bob", "carol"):
        await queue.push("orders", drafts(1, name))
        served.append(partitions(await finish(polls[len(served)])))

    assert served == [["alice"], ["bob"], ["carol"]]


async def test_a_message_wakes_one_of_each_group(queue: Broker) -> None:
    await queue.queues.configure("orders")
    billing, mail = await long_poll(queue, group="billing"), await long_poll(queue, group="mail")

    await queue.push("orders", drafts(1))

    assert (offsets(await billing), offsets(await mail)) == ([0], [0])


async def test_an_ack_wakes_who_waits_for_what_follows(queue: Broker) -> None:
    await queue.push("orders", drafts(2))
    delivery = await pop(queue)
    poll = await long_poll(queue)

    await queue.ack(delivery)

    assert offsets(await poll) == [1]


async def test_an_ack_with_nothing_behind_it_wakes_nobody(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(1))
    delivery = await pop(queue)
    poll = await long_poll(queue, wait=30)

    await queue.ack(delivery)

    await turn()
    assert not poll.done()
    clock.advance(30)
    assert await poll is None


async def test_a_lease_that_expires_wakes_who_waits(queue: Broker, clock: ManualClock) -> None:
    await queue.push("orders", drafts(1))
    await pop(queue, lease_seconds=10)
    poll = await long_poll(queue, wait=30)

    clock.advance(10)

    delivery = await finish(poll)
    assert delivery is not None
    assert [message.attempt for message in delivery.messages] == [2]


async def test_a_lease_that_was_extended_wakes_nobody_at_its_first_end(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(1))
    delivery = await pop(queue, lease_seconds=10)
    await queue.extend(delivery, 60)
    poll = await long_poll(queue, wait=90)

    clock.advance(59)
    await turn()
    meanwhile = poll.done()
    clock.advance(1)

    assert not meanwhile
    assert offsets(await poll) == [0]


async def test_what_is_given_back_wakes_who_waits(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    delivery = await pop(queue)
    poll = await long_poll(queue)

    await queue.settle(delivery, [Verdict(delivery.messages[0].partition_number, 0, "retry")])

    assert offsets(await poll) == [0]


async def test_a_failed_batch_wakes_who_waits_when_its_delay_is_over(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure("orders", retry_delay=10_000)
    await queue.push("orders", drafts(1))
    await queue.fail(await pop(queue))
    poll = await long_poll(queue, wait=60)

    clock.advance(9.9)
    await turn()
    meanwhile = poll.done()
    clock.advance(2.1)

    assert not meanwhile
    assert offsets(await poll) == [0]


async def test_an_auto_ack_pop_wakes_the_next_for_the_rest(queue: Broker) -> None:
    await queue.queues.configure("orders")
    polls = [await long_poll(queue, auto_ack=True) for _ in range(3)]

    await queue.push("orders", drafts(3))

    assert [offsets(await finish(poll)) for poll in polls] == [[0], [1], [2]]


async def test_who_waits_for_the_partition_goes_before_who_waits_for_any(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(1, "bob"))
    await pop_all(queue)
    anyone = await long_poll(queue, wait=30)
    bob = await long_poll(queue, partition="bob", wait=30)

    await queue.push("orders", drafts(1, "bob", first=1))

    assert offsets(await finish(bob)) == [1]
    clock.advance(30)
    assert await anyone is None


async def test_a_poll_survives_the_deletion_and_return_of_its_queue(queue: Broker) -> None:
    await queue.queues.configure("orders")
    poll = await long_poll(queue)
    await queue.queues.delete("orders")

    await queue.push("orders", drafts(1))

    assert offsets(await finish(poll)) == [0]


async def test_a_poll_by_namespace_waits_for_all_its_queues(queue: Broker) -> None:
    await queue.queues.configure("orders", namespace="shop")
    await queue.queues.configure("invoices", namespace="shop")
    poll = await long_poll(queue, None, namespace="shop")

    await queue.push("invoices", drafts(1))

    delivery = await poll
    assert delivery is not None
    assert [message.queue for message in delivery.messages] == ["invoices"]


async def test_a_poll_by_namespace_waits_for_queues_that_do_not_exist_yet(queue: Broker) -> None:
    poll = await long_poll(queue, None, namespace="shop")
    await queue.queues.configure("orders", namespace="shop")

    await queue.push("orders", drafts(1))

    assert offsets(await finish(poll)) == [0]


async def test_a_poll_by_namespace_notices_a_queue_that_joins_it(queue: Broker) -> None:
    await queue.queues.configure("orders")
    poll = await long_poll(queue, None, namespace="shop")
    await queue.queues.configure("orders", namespace="shop")

    await queue.push("orders", drafts(1))

    assert offsets(await finish(poll)) == [0]


async def test_a_thousand_polls_are_all_served(queue: Broker) -> None:
    await queue.queues.configure("orders")
    assert await queue.pop("orders") is None
    polls = [asyncio.create_task(queue.pop("orders", wait=30)) for _ in range(1000)]
    await turn()

    await queue.push(
        "orders", [draft for n in range(1000) for draft in drafts(1, f"p{n}", first=n)]
    )

    deliveries = await asyncio.gather(*polls)
    served = {m.payload for delivery in deliveries if delivery for m in delivery.messages}
    assert len(served) == 1000


async def test_who_is_woken_and_takes_another_queue_leaves_the_first_to_the_next(
    queue: Broker,
) -> None:
    await queue.queues.configure("low", namespace="shop", priority=0)
    await queue.queues.configure("high", namespace="shop", priority=9)
    anyone = await long_poll(queue, None, namespace="shop")
    low, high = await long_poll(queue, "low"), await long_poll(queue, "high")

    await queue.transact([Push("low", drafts(1)), Push("high", drafts(1, first=1))])

    first = await finish(anyone)
    others, _ = await asyncio.wait(
        (low, high), timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED
    )
    served = [payloads(first), *(payloads(poll.result()) for poll in others)]
    assert sorted(served) == [[b"0"], [b"1"]]
    low.cancel()
    high.cancel()


@pytest.mark.one_server("who waits at which server decides who is woken")
async def test_who_is_woken_and_takes_another_partition_leaves_the_first_to_the_next(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(1, "alice"))
    clock.advance(1)
    await queue.push("orders", drafts(1, "bob"))
    await pop(queue, partition="alice", lease_seconds=20)
    await pop(queue, partition="bob", lease_seconds=10)
    first = await long_poll(queue, wait=1000)
    alice = await long_poll(queue, partition="alice", wait=1000)
    second = await long_poll(queue, wait=1000)

    clock.advance(30)  # bob wakes the first, which takes alice because it is older

    assert partitions(await finish(first)) == ["alice"]
    assert partitions(await finish(second)) == ["bob"]
    alice.cancel()


async def test_who_is_woken_for_a_queue_that_has_left_its_namespace_leaves_it_to_the_next(
    held: GatedStore, clock: ManualClock
) -> None:
    async with make_broker(held) as queue:
        await queue.queues.configure("orders", namespace="shop", delayed_processing=10)
        await queue.push("orders", drafts(1))
        shop = await long_poll(queue, None, namespace="shop", wait=60)
        orders = await long_poll(queue, wait=60)
        moving = asyncio.create_task(queue.queues.configure("orders", namespace="office"))
        await asyncio.sleep(0)

        clock.advance(10)  # wakes the first; before its turn comes the queue has left

        await finish(moving)
        assert offsets(await finish(orders)) == [0]
        assert not shop.done()
