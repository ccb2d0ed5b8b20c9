"""A caller who goes away takes nothing with it."""

import asyncio

import pytest

from skep import Broker, Limits
from skep.errors import MessageNotFound
from skep.store.protocol import Store
from skep.testing.clock import ManualClock
from tests.support.broker_builders import (
    backlogs,
    drafts,
    finish,
    long_poll,
    make_broker,
    offsets,
    partitions,
    pop,
    pop_all,
    start,
    turn,
    until,
)
from tests.support.gated_store import GatedStore


async def gone(task: asyncio.Task[object]) -> None:
    """Let a task that was cancelled come to its end."""
    with pytest.raises(asyncio.CancelledError):
        await task


async def drain(queue: Broker) -> list[bytes]:
    """Pop until nothing waits. A removal that was begun goes on although nobody waits for it, and
    until it is done it keeps its partition to itself."""
    found: list[bytes] = []

    async def pop_the_rest() -> bool:
        found.extend(await pop_all(queue))
        return not any((await backlogs(queue)).values())

    await until(pop_the_rest)
    return found


async def test_a_cancelled_poll_takes_no_message(queue: Broker) -> None:
    await queue.queues.configure("orders")
    poll = await long_poll(queue)
    poll.cancel()

    await queue.push("orders", drafts(1))

    await gone(poll)
    assert offsets(await pop(queue)) == [0]


async def test_a_cancelled_poll_is_passed_by(queue: Broker) -> None:
    await queue.queues.configure("orders")
    first, second = await long_poll(queue), await long_poll(queue)
    first.cancel()
    await gone(first)

    await queue.push("orders", drafts(1))

    assert offsets(await finish(second)) == [0]


async def test_a_poll_that_is_cancelled_when_it_was_woken_passes_its_wake_up_on(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure("orders", delayed_processing=10)
    await queue.push("orders", drafts(1))
    first, second = await long_poll(queue, wait=60), await long_poll(queue, wait=60)

    clock.advance(10)  # wakes the first, which has had no turn yet
    first.cancel()

    await gone(first)
    assert offsets(await finish(second)) == [0]


async def test_a_wake_up_is_passed_on_as_often_as_needed(queue: Broker, clock: ManualClock) -> None:
    await queue.queues.configure("orders", delayed_processing=10)
    await queue.push("orders", drafts(1))
    polls = [await long_poll(queue, wait=60) for _ in range(10)]

    clock.advance(10)
    for poll in polls[:9]:
        poll.cancel()

    assert offsets(await finish(polls[9])) == [0]


async def test_a_poll_for_a_partition_passes_its_wake_up_on_to_who_waits_for_any(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure("orders", delayed_processing=10)
    await queue.push("orders", drafts(1, "bob"))
    anyone = await long_poll(queue, wait=60)
    bob = await long_poll(queue, partition="bob", wait=60)

    clock.advance(10)
    bob.cancel()

    await gone(bob)
    assert partitions(await finish(anyone)) == ["bob"]


async def test_a_poll_by_namespace_passes_its_wake_up_on(queue: Broker, clock: ManualClock) -> None:
    await queue.queues.configure("orders", namespace="shop", delayed_processing=10)
    await queue.push("orders", drafts(1))
    first = await long_poll(queue, None, namespace="shop", wait=60)
    second = await long_poll(queue, wait=60)

    clock.advance(10)
    first.cancel()

    await gone(first)
    assert offsets(await finish(second)) == [0]


async def test_a_pop_that_is_cancelled_during_its_commit_does_not_hold_the_lease(
    queue: Broker,
) -> None:
    await queue.push("orders", drafts(2))
    assert await queue.pop("orders", partition="bob") is None
    cancelled = asyncio.create_task(queue.pop("orders", batch=2))
    await asyncio.sleep(0)
    cancelled.cancel()
    await gone(cancelled)

    # Time stands still: if it is delivered, the lease was given back and did not expire.
    delivery = await finish(await start(queue.pop("orders", batch=2, wait=30)))

    assert offsets(delivery) == [0, 1]


async def test_a_poll_that_is_cancelled_during_its_commit_does_not_hold_the_lease(
    queue: Broker,
) -> None:
    await queue.queues.configure("orders")
    first, second = await long_poll(queue), await long_poll(queue)

    await queue.push("orders", drafts(1))  # the first has asked for its lease when this returns
    first.cancel()

    await gone(first)
    assert offsets(await finish(second)) == [0]


async def test_a_pop_of_several_partitions_that_is_cancelled_holds_none_of_them(
    queue: Broker,
) -> None:
    await queue.push("orders", [*drafts(1, "alice"), *drafts(1, "bob"), *drafts(1, "carol")])
    assert await queue.pop("orders", partition="dave") is None
    cancelled = asyncio.create_task(queue.pop("orders", batch=3, partitions=3))
    await asyncio.sleep(0)
    cancelled.cancel()
    await gone(cancelled)

    polls = [await start(queue.pop("orders", wait=30)) for _ in range(3)]

    found = [partitions(await finish(poll)) for poll in polls]
    assert sorted(found) == [["alice"], ["bob"], ["carol"]]


async def test_a_cancelled_pop_is_no_failure(queue: Broker) -> None:
    await queue.queues.configure("orders", retry_limit=0)
    await queue.push("orders", drafts(1))
    assert await queue.pop("orders", partition="bob") is None
    for _ in range(5):
        cancelled = asyncio.create_task(queue.pop("orders", wait=30))
        await asyncio.sleep(0)
        cancelled.cancel()
        await gone(cancelled)

    delivery = await finish(await start(queue.pop("orders", wait=30)))

    assert offsets(delivery) == [0]
    assert await queue.dead_letters.list("orders") == []


async def test_a_first_pop_that_is_cancelled_leaves_its_group_in_order(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    cancelled = asyncio.create_task(queue.pop("orders", group="mail"))
    await asyncio.sleep(0)
    cancelled.cancel()
    await gone(cancelled)

    delivery = await finish(await start(queue.pop("orders", group="mail", wait=30)))

    assert offsets(delivery) == [0]


@pytest.mark.timeout(10)
async def test_a_clearing_that_is_cancelled_leaves_the_queue_in_order(store: Store) -> None:
    async with make_broker(store, limits=Limits(cache_bytes=0)) as queue:
        await queue.push("orders", drafts(3))
        cancelled = asyncio.create_task(queue.queues.clear("orders"))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        await queue.push("orders", drafts(1, first=3))

        found = await drain(queue)

        assert found in ([b"3"], [b"0", b"1", b"2", b"3"])


@pytest.mark.timeout(10)
async def test_a_clearing_of_everything_that_is_cancelled_leaves_nothing_to_wait_for(
    store: Store,
) -> None:
    async with make_broker(store, limits=Limits(cache_bytes=0)) as queue:
        await queue.push("orders", drafts(3))
        cancelled = asyncio.create_task(queue.queues.clear("orders"))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait([cancelled])

        found = await drain(queue)

        assert found in ([], [b"0", b"1", b"2"])


async def test_a_configuration_that_is_cancelled_is_not_half_done(
    store: Store, clock: ManualClock
) -> None:
    async with make_broker(store) as queue:
        await queue.queues.configure("orders", lease_time=10)
        cancelled = asyncio.create_task(queue.queues.configure("orders", lease_time=20))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        await queue.push("orders", drafts(1))  # whatever goes on behind has ended before this
        await turn()

        (stored,) = await store.queues()

        assert await queue.queues.get("orders") == stored


async def test_a_deletion_of_a_message_that_is_cancelled_is_not_half_done(queue: Broker) -> None:
    (receipt,) = await queue.push("orders", drafts(1))
    cancelled = asyncio.create_task(queue.messages.delete(receipt.id))
    await asyncio.sleep(0)
    cancelled.cancel()
    await gone(cancelled)
    await queue.push("orders", drafts(1, first=1))  # what goes on behind has ended before this
    await turn()

    found = await pop_all(queue)

    if found == [b"0", b"1"]:
        assert (await queue.messages.get(receipt.id)).payload == b"0", "it had not begun"
        return
    assert found == [b"1"]
    with pytest.raises(MessageNotFound):
        await queue.messages.get(receipt.id)


@pytest.mark.one_server("the next push does not wait for that of another server")
async def test_a_push_that_is_cancelled_during_its_commit_is_whole_or_absent(
    queue: Broker,
) -> None:
    await queue.push("orders", drafts(1))
    cancelled = asyncio.create_task(queue.push("orders", drafts(3, first=1)))
    await asyncio.sleep(0)
    cancelled.cancel()
    await gone(cancelled)
    await queue.push("orders", drafts(1, first=4))

    found = await pop_all(queue)

    assert found in ([b"0", b"4"], [b"0", b"1", b"2", b"3", b"4"])


async def test_an_ack_that_is_cancelled_during_its_commit_leaves_the_lease_in_order(
    queue: Broker,
) -> None:
    await queue.push("orders", drafts(2))
    delivery = await pop(queue, batch=2)
    cancelled = asyncio.create_task(queue.ack(delivery, delivery.messages[:1]))
    await asyncio.sleep(0)
    cancelled.cancel()
    await gone(cancelled)

    settlement = await queue.ack(delivery)

    assert settlement.released
    assert await backlogs(queue) == {"Default": 0}


async def test_cancelling_one_of_many_callers_disturbs_no_other(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    pushes = [asyncio.create_task(queue.push("orders", drafts(1))) for _ in range(10)]
    await asyncio.sleep(0)

    pushes[4].cancel()

    others = await asyncio.gather(*pushes[:4], *pushes[5:])
    await turn()
    assert len({receipt.offset for some in others for receipt in some}) == 9


async def test_a_poll_that_is_cancelled_while_it_takes_something_else_passes_its_wake_up_on(
    held: GatedStore, clock: ManualClock
) -> None:
    async with make_broker(held) as queue:
        for name, priority in (("low", 0), ("high", 1)):
            await queue.queues.configure(
                name, namespace="shop", priority=priority, delayed_processing=10
            )
            await queue.push(name, drafts(1))
            clock.advance(1)
        cancelled = await long_poll(queue, None, namespace="shop", wait=60)
        low = await long_poll(queue, "low", wait=60)
        held.hold()
        clock.advance(10)  # wakes the first for the low queue; it asks for the high one
        await turn()

        cancelled.cancel()

        await gone(cancelled)
        held.release()
        assert offsets(await finish(low)) == [0]
