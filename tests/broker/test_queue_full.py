"""How much a queue holds: ``max_size`` bounds what somebody still has to read."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from skep import Broker, Draft, Push
from skep.errors import OutcomeUnknown, QueueFull
from skep.testing.clock import ManualClock
from tests.support.broker_builders import drafts, make_broker, pop, pop_all, start, turn, until
from tests.support.gated_store import GatedStore


async def depth(queue: Broker) -> int:
    return (await queue.queues.stats("orders")).depth


async def test_a_push_that_fills_the_queue_exactly_is_taken(queue: Broker) -> None:
    await queue.queues.configure("orders", max_size=3)

    await queue.push("orders", drafts(2))
    await queue.push("orders", drafts(1))

    assert await depth(queue) == 3


async def test_a_push_that_would_exceed_the_room_is_refused_whole(queue: Broker) -> None:
    await queue.queues.configure("orders", max_size=3)
    await queue.push("orders", drafts(2))

    with pytest.raises(QueueFull):
        await queue.push("orders", drafts(2, first=2))

    assert await pop_all(queue, batch=10) == [b"0", b"1"]
    assert (await queue.queues.stats("orders")).pushed == 2


async def test_the_refusal_says_how_deep_the_queue_is_and_how_much_room_is_left(
    queue: Broker,
) -> None:
    await queue.queues.configure("orders", max_size=5)
    await queue.push("orders", drafts(3))

    with pytest.raises(QueueFull) as refused:
        await queue.push("orders", drafts(3))

    error = refused.value
    assert (error.queue, error.depth, error.capacity, error.remaining) == ("orders", 3, 5, 2)
    assert error.code == "QUEUE_FULL"


async def test_a_push_larger_than_the_queue_is_refused_when_it_is_empty(queue: Broker) -> None:
    await queue.queues.configure("orders", max_size=2)

    with pytest.raises(QueueFull) as refused:
        await queue.push("orders", drafts(3))

    assert (refused.value.depth, refused.value.remaining) == (0, 2)


async def test_all_partitions_share_the_room(queue: Broker) -> None:
    await queue.queues.configure("orders", max_size=3)
    await queue.push("orders", [*drafts(1, "alice"), *drafts(1, "bob")])

    with pytest.raises(QueueFull):
        await queue.push("orders", [*drafts(1, "carol"), *drafts(1, "dave")])


async def test_a_queue_without_a_size_is_never_full(queue: Broker) -> None:
    await queue.push("orders", drafts(2000))

    receipts = await queue.push("orders", drafts(1))

    assert receipts[0].offset == 2000


async def test_a_message_makes_room_when_it_is_acknowledged_not_when_it_is_popped(
    queue: Broker,
) -> None:
    await queue.queues.configure("orders", max_size=2)
    await queue.push("orders", drafts(2))
    delivery = await pop(queue)

    with pytest.raises(QueueFull):
        await queue.push("orders", drafts(1))
    await queue.ack(delivery)

    await queue.push("orders", drafts(1))
    with pytest.raises(QueueFull):
        await queue.push("orders", drafts(1))


async def test_a_message_that_becomes_a_dead_letter_makes_room(queue: Broker) -> None:
    await queue.queues.configure("orders", max_size=1, retry_limit=0)
    await queue.push("orders", drafts(1))

    await queue.fail(await pop(queue))

    assert await depth(queue) == 0
    await queue.push("orders", drafts(1))


async def test_the_group_that_is_furthest_behind_decides(queue: Broker) -> None:
    await queue.queues.configure("orders", max_size=3)
    for group in ("fast", "slow"):
        await queue.pop("orders", group=group)
    await queue.push("orders", drafts(3))
    await queue.ack(await pop(queue, group="fast", batch=3))
    await queue.ack(await pop(queue, group="slow", batch=1))

    with pytest.raises(QueueFull) as refused:
        await queue.push("orders", drafts(2))

    assert refused.value.depth == 2
    await queue.push("orders", drafts(1))


async def test_a_group_that_is_gone_holds_no_room(queue: Broker) -> None:
    await queue.queues.configure("orders", max_size=1)
    for group in ("fast", "slow"):
        await queue.pop("orders", group=group)
    await queue.push("orders", drafts(1))
    await queue.ack(await pop(queue, group="fast"))

    await queue.groups.delete("orders", "slow")

    assert await depth(queue) == 0
    await queue.push("orders", drafts(1))


async def test_without_a_group_all_that_is_kept_counts(queue: Broker, clock: ManualClock) -> None:
    await queue.queues.configure("orders", max_size=2, retention_enabled=True, retention_seconds=60)
    await queue.push("orders", drafts(2))
    with pytest.raises(QueueFull):
        await queue.push("orders", drafts(1))

    clock.advance(61)
    await queue.sweep()

    await queue.push("orders", drafts(1))


async def test_a_group_that_starts_at_the_end_counts_from_there(queue: Broker) -> None:
    await queue.queues.configure("orders", max_size=2)
    await queue.push("orders", drafts(2))

    assert await queue.pop("orders", subscription_mode="new") is None

    assert await depth(queue) == 0
    await queue.push("orders", drafts(2))


async def test_a_seek_back_counts(queue: Broker) -> None:
    await queue.queues.configure("orders", max_size=2)
    await queue.push("orders", drafts(2))
    await pop_all(queue, batch=2)
    await queue.push("orders", drafts(1))

    await queue.groups.seek("orders", "__QUEUE_MODE__", "beginning")

    assert await depth(queue) == 3
    with pytest.raises(QueueFull):
        await queue.push("orders", drafts(1))


async def test_clearing_a_queue_makes_room(queue: Broker) -> None:
    await queue.queues.configure("orders", max_size=2)
    await queue.pop("orders")
    await queue.push("orders", drafts(2))

    await queue.queues.clear("orders")

    assert await depth(queue) == 0
    await queue.push("orders", drafts(2))


async def test_a_size_that_was_raised_is_used_at_once(queue: Broker) -> None:
    await queue.queues.configure("orders", max_size=1)
    await queue.push("orders", drafts(1))

    await queue.queues.configure("orders", max_size=2)

    await queue.push("orders", drafts(1))


async def test_a_transaction_that_does_not_fit_writes_nothing(queue: Broker) -> None:
    await queue.queues.configure("orders", max_size=1)
    await queue.push("orders", drafts(1))

    with pytest.raises(QueueFull):
        await queue.transact([Push("invoices", drafts(1)), Push("orders", drafts(1))])

    assert [found.name for found in await queue.queues.list()] == ["orders"]


async def test_of_pushes_at_the_same_time_only_as_many_are_taken_as_fit(queue: Broker) -> None:
    await queue.queues.configure("orders", max_size=5)
    await queue.push("orders", drafts(1))

    found = await asyncio.gather(
        *(queue.push("orders", drafts(1)) for _ in range(10)), return_exceptions=True
    )

    assert [isinstance(result, QueueFull) for result in found].count(False) == 4
    assert await depth(queue) == 5


async def test_of_first_pushes_at_the_same_time_only_as_many_are_taken_as_fit(
    queue: Broker,
) -> None:
    await queue.queues.configure("orders", max_size=5)

    found = await asyncio.gather(
        *(queue.push("orders", drafts(1, f"p{n}")) for n in range(10)), return_exceptions=True
    )

    assert [isinstance(result, QueueFull) for result in found].count(False) == 5
    assert await depth(queue) == 5


async def test_a_repetition_of_what_is_stored_is_answered_when_the_queue_is_full(
    queue: Broker,
) -> None:
    await queue.queues.configure("orders", max_size=1)
    (first,) = await queue.push("orders", [Draft(b"a", transaction_id="t-1")])

    (again,) = await queue.push("orders", [Draft(b"a", transaction_id="t-1")])

    assert (again.id, again.duplicate) == (first.id, True)


async def test_what_is_acknowledged_beyond_the_start_does_not_count_after_retention(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure("orders", max_size=2, retention_enabled=True, retention_seconds=60)
    await queue.push("orders", drafts(1))
    clock.advance(50)
    await queue.push("orders", drafts(1, first=1))
    delivery = await pop(queue, batch=2)
    await queue.ack(delivery, delivery.messages[1:])

    clock.advance(11)
    assert await queue.sweep() == 1

    assert await depth(queue) == 0
    await queue.push("orders", drafts(2))


# The commit decides whether there is room.


@pytest.fixture
def held(clock: ManualClock) -> GatedStore:
    return GatedStore(clock=clock)


@pytest.fixture
async def slow(held: GatedStore) -> AsyncIterator[Broker]:
    """A broker over a store that the test holds back."""
    async with make_broker(held) as broker:
        yield broker
        held.release()


async def test_of_two_pushes_under_way_the_second_finds_the_queue_full(
    slow: Broker, held: GatedStore
) -> None:
    await slow.queues.configure("orders", max_size=3)
    held.hold()
    first = await start(slow.push("orders", drafts(2)))
    second = await start(slow.push("orders", drafts(2)))

    held.release()

    assert len(await first) == 2
    with pytest.raises(QueueFull) as refused:
        await second
    assert refused.value.depth == 2


async def test_a_push_that_failed_gives_its_room_back(slow: Broker, held: GatedStore) -> None:
    await slow.queues.configure("orders", max_size=2)
    held.fail_next()
    with pytest.raises(OutcomeUnknown):
        await slow.push("orders", drafts(2))

    receipts = await slow.push("orders", drafts(2))

    assert len(receipts) == 2


async def test_a_push_whose_caller_has_gone_holds_its_room_until_it_is_committed(
    slow: Broker, held: GatedStore
) -> None:
    await slow.queues.configure("orders", max_size=2)
    held.hold()
    gone = await start(slow.push("orders", drafts(2)))
    await until(held.is_committing)
    gone.cancel()
    await turn()

    late = await start(slow.push("orders", drafts(1)))
    held.release()
    await turn()

    assert isinstance(late.exception(), QueueFull)
    assert await depth(slow) == 2


async def test_a_push_is_not_counted_twice_when_it_is_just_committed(
    slow: Broker, held: GatedStore
) -> None:
    await slow.queues.configure("orders", max_size=2)
    await slow.push("orders", drafts(1))
    await slow.ack(await pop(slow))
    held.hold()
    first = await start(slow.push("orders", drafts(1)))

    async def next_in_line() -> int:
        await held.released()
        return (await slow.push("orders", drafts(1)))[0].offset

    second = await start(next_in_line())
    held.release()

    assert (await first)[0].offset == 1
    assert await second == 2
