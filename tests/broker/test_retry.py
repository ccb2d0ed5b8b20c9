"""A batch that fails as a whole comes again, later, a few times; then it is given up."""

from datetime import datetime, timedelta

import pytest

from skep import Broker, Delivery, Verdict
from skep.errors import LeaseLost
from skep.model.operation import Status
from skep.testing.clock import ManualClock
from tests.support.broker_builders import (
    Settled,
    cursors,
    dead,
    drafts,
    letters,
    moment,
    offsets,
    partitions,
    pop,
)

HOUR = 3600


def say(delivery: Delivery, status: Status, *which: int, error: str = "") -> list[Verdict]:
    """The same verdict on some messages of a delivery."""
    return [
        Verdict(message.partition_number, message.offset, status, error)
        for message in (delivery.messages[index] for index in which)
    ]


def go_to(clock: ManualClock, when: datetime | None) -> None:
    assert when is not None
    clock.advance((when - moment(clock)).total_seconds())


async def fail_until_given_up(queue: Broker, clock: ManualClock, batch: int = 1) -> list[float]:
    """Fail every delivery; the seconds between the failures and the next deliveries."""
    delays: list[float] = []
    while True:
        settlement = await queue.fail(await pop(queue, batch=batch), error="down")
        if settlement.retry_at is None:
            return delays
        delays.append((settlement.retry_at - moment(clock)).total_seconds())
        go_to(clock, settlement.retry_at)


async def test_a_batch_that_fails_as_a_whole_comes_again_after_a_delay(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(3))
    delivery = await pop(queue, batch=3)

    settlement = await queue.fail(delivery, error="database is down")

    assert settlement.retry_at is not None
    assert (settlement.completed, settlement.dead_letters, settlement.released) == (0, 0, True)
    assert await queue.pop("orders", batch=3) is None
    go_to(clock, settlement.retry_at - timedelta(microseconds=1))
    assert await queue.pop("orders", batch=3) is None
    go_to(clock, settlement.retry_at)
    again = await pop(queue, batch=3)
    assert [(m.offset, m.attempt) for m in again.messages] == [(0, 2), (1, 2), (2, 2)]


async def test_a_failed_batch_moves_no_cursor_and_makes_no_dead_letter(queue: Broker) -> None:
    await queue.push("orders", drafts(3))

    await queue.fail(await pop(queue, batch=3))

    assert await cursors(queue) == {"Default": 0}
    assert await letters(queue) == []


async def test_a_lease_that_failed_is_over(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    delivery = await pop(queue)
    await queue.fail(delivery)

    with pytest.raises(LeaseLost):
        await queue.ack(delivery)

    assert await cursors(queue) == {"Default": 0}


async def test_the_delay_doubles_with_every_failure(queue: Broker, clock: ManualClock) -> None:
    await queue.queues.configure("orders", retry_delay=1000, retry_limit=5)
    await queue.push("orders", drafts(1))

    delays = await fail_until_given_up(queue, clock)

    assert len(delays) == 5
    for delay, base in zip(delays, (1, 2, 4, 8, 16), strict=True):
        assert base <= delay <= 1.2 * base


@pytest.mark.one_server("the same seed draws the same jitter at both")
async def test_batches_that_failed_together_come_again_at_different_times(
    queue: Broker,
) -> None:
    for name in ("alice", "bob", "carol"):
        await queue.push("orders", drafts(1, name))
    deliveries = [await pop(queue) for _ in range(3)]

    settlements = [await queue.fail(delivery) for delivery in deliveries]

    assert len({settlement.retry_at for settlement in settlements}) == 3


async def test_the_delay_begins_with_what_the_queue_says(queue: Broker, clock: ManualClock) -> None:
    await queue.queues.configure("orders", retry_delay=2 * HOUR * 1000)
    await queue.push("orders", drafts(1))

    settlement = await queue.fail(await pop(queue))

    assert settlement.retry_at is not None
    assert settlement.retry_at >= moment(clock, 2 * HOUR)


async def test_without_a_delay_a_failed_batch_comes_again_at_once(queue: Broker) -> None:
    await queue.queues.configure("orders", retry_delay=0)
    await queue.push("orders", drafts(1))
    await queue.fail(await pop(queue))

    again = await pop(queue)

    assert [message.attempt for message in again.messages] == [2]


async def test_a_batch_is_retried_as_often_as_the_queue_says_and_then_given_up(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure("orders", retry_limit=3)
    await queue.push("orders", drafts(2))

    delays = await fail_until_given_up(queue, clock, batch=2)

    assert len(delays) == 3
    assert [(x.payload, x.error, x.attempts) for x in await letters(queue)] == [
        (b"0", "down", 4),
        (b"1", "down", 4),
    ]
    assert await cursors(queue) == {"Default": 2}


async def test_the_last_failure_says_how_many_messages_were_given_up(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure("orders", retry_limit=1)
    await queue.push("orders", drafts(3))
    go_to(clock, (await queue.fail(await pop(queue, batch=3))).retry_at)

    settlement = await queue.fail(await pop(queue, batch=3))

    assert settlement == Settled(dead_letters=3, released=True)


async def test_without_retries_the_first_failure_gives_up(queue: Broker) -> None:
    await queue.queues.configure("orders", retry_limit=0)
    await queue.push("orders", drafts(2))

    settlement = await queue.fail(await pop(queue), error="no")

    assert settlement == Settled(dead_letters=1, released=True)
    assert await dead(queue) == [b"0"]
    assert offsets(await pop(queue)) == [1]


async def test_a_failure_without_a_reason_still_has_one(queue: Broker) -> None:
    await queue.queues.configure("orders", retry_limit=0)
    await queue.push("orders", drafts(1))

    await queue.fail(await pop(queue))

    assert [letter.error for letter in await letters(queue)] == ["retries exhausted"]


async def test_younger_messages_wait_for_a_batch_that_is_to_be_retried(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(1))
    settlement = await queue.fail(await pop(queue))
    await queue.push("orders", drafts(1, first=1))

    meanwhile = await queue.pop("orders")
    go_to(clock, settlement.retry_at)

    assert meanwhile is None
    assert offsets(await pop(queue)) == [0]


async def test_other_partitions_do_not_wait_for_a_batch_that_is_to_be_retried(
    queue: Broker,
) -> None:
    await queue.push("orders", drafts(1, "alice"))
    await queue.fail(await pop(queue))
    await queue.push("orders", drafts(1, "bob"))

    delivery = await pop(queue)

    assert partitions(delivery) == ["bob"]


async def test_a_retried_batch_has_the_same_end_even_if_more_was_pushed(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(2))
    settlement = await queue.fail(await pop(queue, batch=10))
    await queue.push("orders", drafts(2, first=2))
    go_to(clock, settlement.retry_at)

    again = await pop(queue, batch=10)

    assert offsets(again) == [0, 1]


async def test_a_batch_that_succeeds_at_last_leaves_no_debt_to_the_next(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure("orders", retry_limit=1)
    await queue.push("orders", drafts(2))
    go_to(clock, (await queue.fail(await pop(queue))).retry_at)
    await queue.ack(await pop(queue))

    settlement = await queue.fail(await pop(queue))

    assert settlement.retry_at is not None
    assert await letters(queue) == []


async def test_a_batch_that_was_given_up_leaves_no_debt_to_the_next(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure("orders", retry_limit=1)
    await queue.push("orders", drafts(2))
    await fail_until_given_up(queue, clock)

    settlement = await queue.fail(await pop(queue))

    assert settlement.retry_at is not None
    assert await dead(queue) == [b"0"]


async def test_a_lease_that_expires_between_failures_does_not_use_up_a_retry(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure("orders", retry_limit=2)
    await queue.push("orders", drafts(1))
    retried = 0
    for _ in range(2):
        await pop(queue, lease_seconds=10)
        clock.advance(10)
        settlement = await queue.fail(await pop(queue))
        retried += settlement.retry_at is not None
        go_to(clock, settlement.retry_at)

    last = await queue.fail(await pop(queue))

    assert (retried, last.dead_letters) == (2, 1)


async def test_a_lease_that_expires_does_not_forget_the_failures_before_it(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure("orders", retry_limit=1)
    await queue.push("orders", drafts(1))
    go_to(clock, (await queue.fail(await pop(queue))).retry_at)
    await pop(queue, lease_seconds=10)
    clock.advance(10)

    settlement = await queue.fail(await pop(queue))

    assert settlement == Settled(dead_letters=1, released=True)


async def test_what_was_acked_under_an_earlier_lease_does_not_make_a_failure_partial(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(3))
    delivery = await pop(queue, batch=3, lease_seconds=10)
    await queue.ack(delivery, delivery.messages[1:2])
    clock.advance(10)

    settlement = await queue.fail(await pop(queue, batch=3))

    assert settlement.retry_at is not None
    assert await letters(queue) == []
    go_to(clock, settlement.retry_at)
    assert offsets(await pop(queue, batch=3)) == [0, 2]


# Failures that are reported one by one.


async def test_failures_reported_one_by_one_stay_open_until_the_batch_is_settled(
    queue: Broker,
) -> None:
    await queue.push("orders", drafts(3))
    delivery = await pop(queue, batch=3)

    settlements = [await queue.fail(delivery, [m]) for m in delivery.messages[:2]]

    assert settlements == [Settled(), Settled()]
    assert await letters(queue) == []
    assert await cursors(queue) == {"Default": 0}
    assert await queue.pop("orders", batch=3) is None


async def test_failures_reported_one_by_one_make_a_whole_failure_with_the_last(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(3))
    delivery = await pop(queue, batch=3)
    await queue.fail(delivery, delivery.messages[2:])
    await queue.fail(delivery, delivery.messages[:1])

    settlement = await queue.fail(delivery, delivery.messages[1:2])

    assert settlement.retry_at is not None
    assert settlement.released
    assert await letters(queue) == []
    go_to(clock, settlement.retry_at)
    assert offsets(await pop(queue, batch=3)) == [0, 1, 2]


async def test_failures_reported_one_by_one_are_given_up_with_their_own_reasons(
    queue: Broker,
) -> None:
    await queue.queues.configure("orders", retry_limit=0)
    await queue.push("orders", drafts(2))
    delivery = await pop(queue, batch=2)
    await queue.fail(delivery, delivery.messages[:1], error="first")

    await queue.fail(delivery, delivery.messages[1:], error="second")

    assert [letter.error for letter in await letters(queue)] == ["first", "second"]


async def test_open_failures_become_dead_letters_with_the_first_ack(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    delivery = await pop(queue, batch=3)
    await queue.fail(delivery, delivery.messages[:1], error="no")

    settlement = await queue.ack(delivery, delivery.messages[2:])

    assert settlement == Settled(completed=1, dead_letters=1)
    assert [(x.payload, x.error) for x in await letters(queue)] == [(b"0", "no")]
    assert await cursors(queue) == {"Default": 1}


async def test_acking_the_rest_makes_dead_letters_of_open_failures(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    delivery = await pop(queue, batch=3)
    await queue.fail(delivery, delivery.messages[1:2])

    settlement = await queue.ack(delivery)

    assert settlement == Settled(completed=2, dead_letters=1, released=True)
    assert await dead(queue) == [b"1"]
    assert await cursors(queue) == {"Default": 3}


async def test_a_message_whose_failure_is_open_may_still_be_completed(queue: Broker) -> None:
    await queue.push("orders", drafts(2))
    delivery = await pop(queue, batch=2)
    await queue.fail(delivery, delivery.messages[:1])

    await queue.ack(delivery, delivery.messages[:1])
    settlement = await queue.ack(delivery)

    assert settlement == Settled(completed=1, released=True)
    assert await letters(queue) == []


async def test_open_failures_are_forgotten_when_the_lease_expires(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(2))
    delivery = await pop(queue, batch=2, lease_seconds=10)
    await queue.fail(delivery, delivery.messages[:1])
    clock.advance(10)

    again = await pop(queue, batch=2)
    settlement = await queue.ack(again)

    assert offsets(again) == [0, 1]
    assert settlement == Settled(completed=2, released=True)
    assert await letters(queue) == []


async def test_a_failure_that_is_reported_twice_counts_once(queue: Broker) -> None:
    await queue.push("orders", drafts(2))
    delivery = await pop(queue, batch=2)
    await queue.fail(delivery, delivery.messages[:1], error="first")

    settlement = await queue.fail(delivery, delivery.messages[:1], error="again")
    await queue.ack(delivery)

    assert settlement == Settled()
    assert await dead(queue) == [b"0"]


# Giving back, and giving up.


async def test_what_is_given_back_for_a_retry_comes_again_at_once(queue: Broker) -> None:
    await queue.push("orders", drafts(2))
    delivery = await pop(queue, batch=2)

    settlement = await queue.settle(delivery, say(delivery, "retry", 0, 1))

    assert settlement == Settled(released=True)
    assert offsets(await pop(queue, batch=2)) == [0, 1]


async def test_giving_back_is_no_failure_however_often(queue: Broker) -> None:
    await queue.queues.configure("orders", retry_limit=0)
    await queue.push("orders", drafts(1))
    for _ in range(10):
        delivery = await pop(queue)
        await queue.settle(delivery, say(delivery, "retry", 0))

    again = await pop(queue)

    assert offsets(again) == [0]
    assert await letters(queue) == []


async def test_what_was_completed_stays_so_when_the_rest_is_given_back(queue: Broker) -> None:
    await queue.push("orders", drafts(4))
    delivery = await pop(queue, batch=4)

    settlement = await queue.settle(
        delivery, [*say(delivery, "completed", 0, 2), *say(delivery, "retry", 1)]
    )

    assert settlement == Settled(completed=2, released=True)
    assert offsets(await pop(queue, batch=4)) == [1, 3]


async def test_who_gave_a_lease_back_has_lost_it(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    delivery = await pop(queue)
    await queue.settle(delivery, say(delivery, "retry", 0))

    with pytest.raises(LeaseLost):
        await queue.ack(delivery)

    assert await cursors(queue) == {"Default": 0}


async def test_a_consumer_may_give_a_message_up_at_once(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    delivery = await pop(queue, batch=3)

    settlement = await queue.settle(delivery, say(delivery, "dead_letter", 1, error="poison"))

    assert settlement == Settled(dead_letters=1)
    assert [(x.payload, x.error, x.attempts) for x in await letters(queue)] == [(b"1", "poison", 1)]
    assert await queue.ack(delivery) == Settled(completed=2, released=True)


async def test_what_was_given_up_does_not_come_again(queue: Broker, clock: ManualClock) -> None:
    await queue.push("orders", drafts(3))
    delivery = await pop(queue, batch=3, lease_seconds=10)
    await queue.settle(delivery, say(delivery, "dead_letter", 1))
    clock.advance(10)

    again = await pop(queue, batch=3)

    assert offsets(again) == [0, 2]


async def test_if_the_rest_of_what_was_not_given_up_fails_it_is_retried(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(3))
    delivery = await pop(queue, batch=3)

    settlement = await queue.settle(
        delivery, [*say(delivery, "dead_letter", 1), *say(delivery, "failed", 0, 2)]
    )

    assert (settlement.dead_letters, settlement.released) == (1, True)
    go_to(clock, settlement.retry_at)
    assert offsets(await pop(queue, batch=3)) == [0, 2]
    assert await dead(queue) == [b"1"]


async def test_a_batch_that_is_given_up_whole_is_passed(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    delivery = await pop(queue, batch=2)

    settlement = await queue.settle(delivery, say(delivery, "dead_letter", 0, 1))

    assert settlement == Settled(dead_letters=2, released=True)
    assert await cursors(queue) == {"Default": 2}
    assert offsets(await pop(queue)) == [2]


async def test_every_kind_of_verdict_may_stand_in_one_call(queue: Broker) -> None:
    await queue.push("orders", drafts(4))
    delivery = await pop(queue, batch=4)

    settlement = await queue.settle(
        delivery,
        [
            *say(delivery, "completed", 0),
            *say(delivery, "failed", 1),
            *say(delivery, "dead_letter", 2),
            *say(delivery, "retry", 3),
        ],
    )

    assert settlement == Settled(completed=1, dead_letters=2, released=True)
    assert await dead(queue) == [b"1", b"2"]
    assert offsets(await pop(queue, batch=4)) == [3]
