"""What the counters say is what happened, once, whichever way it came."""

import asyncio

import pytest

from skep import Broker, Draft, Push
from skep.errors import LeaseLost
from skep.model.tally import Tally
from skep.testing.clock import ManualClock
from tests.support.broker_builders import drafts, lease_of, letters, pop

pytestmark = pytest.mark.one_server("a server counts what it did itself")


def counted(queue: Broker, name: str = "orders") -> dict[str, int]:
    """What was counted for a queue, without operations and lags."""
    tally = queue.insight.metrics.total(lambda each: each == name)
    fields = ("pushed", "popped", "acked", "failed", "dead_letters")
    return {field: getattr(tally, field) for field in fields if getattr(tally, field)}


def total(queue: Broker) -> Tally:
    return queue.insight.metrics.total(lambda each: True)


async def test_a_push_counts_what_was_stored_and_not_what_was_there(queue: Broker) -> None:
    await queue.push("orders", [Draft(b"1", transaction_id="a"), Draft(b"2", transaction_id="b")])
    await queue.push("orders", [Draft(b"1", transaction_id="a"), Draft(b"3", transaction_id="c")])

    assert counted(queue) == {"pushed": 3}
    assert total(queue).pushes == 2


async def test_a_transaction_counts_in_every_queue_it_touches(queue: Broker) -> None:
    await queue.transact([Push("orders", drafts(2)), Push("payments", drafts(3))])

    assert counted(queue) == {"pushed": 2}
    assert counted(queue, "payments") == {"pushed": 3}


async def test_a_delivery_and_its_acks_count_each_message_once(queue: Broker) -> None:
    await queue.push("orders", drafts(5))

    delivery = await pop(queue, batch=4)
    await queue.ack(delivery, delivery.messages[:1])
    await queue.ack(delivery)

    assert counted(queue) == {"pushed": 5, "popped": 4, "acked": 4}
    assert (total(queue).pops, total(queue).acks) == (1, 2)


async def test_acks_that_are_committed_together_count_once_each(queue: Broker) -> None:
    await queue.push("orders", drafts(4))
    delivery = await pop(queue, batch=4)

    await asyncio.gather(*(queue.ack(delivery, [message]) for message in delivery.messages))

    assert counted(queue) == {"pushed": 4, "popped": 4, "acked": 4}


async def test_what_is_acknowledged_when_it_is_popped_counts_as_both(queue: Broker) -> None:
    await queue.push("orders", drafts(3))

    await pop(queue, batch=2, auto_ack=True)

    assert counted(queue) == {"pushed": 3, "popped": 2, "acked": 2}


async def test_keeping_a_lease_counts_nothing(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    delivery = await pop(queue)

    await queue.extend(delivery, 600)

    assert counted(queue) == {"pushed": 1, "popped": 1}


async def test_what_will_come_again_counts_as_failed_and_what_will_not_as_given_up(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure("orders", retry_limit=1, retry_delay=0)
    await queue.push("orders", drafts(2))

    await queue.fail(await pop(queue, batch=2))
    await queue.fail(await pop(queue, batch=2))

    assert counted(queue) == {"pushed": 2, "popped": 4, "failed": 2, "dead_letters": 2}


async def test_a_delivery_after_an_expired_lease_counts_again(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure("orders", lease_time=10)
    await queue.push("orders", drafts(2))

    await pop(queue, batch=2)
    clock.advance(11)
    await queue.ack(await pop(queue, batch=2))

    assert counted(queue) == {"pushed": 2, "popped": 4, "acked": 2}


async def test_what_came_back_from_the_dead_letters_counts_as_pushed(queue: Broker) -> None:
    await queue.queues.configure("orders", retry_limit=0)
    await queue.push("orders", drafts(1))
    await queue.fail(await pop(queue))
    (letter,) = await letters(queue)

    await queue.dead_letters.replay("orders", [letter.number])

    assert counted(queue) == {"pushed": 2, "popped": 1, "dead_letters": 1}


async def test_seeking_counts_nothing(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    await pop(queue, batch=3, auto_ack=True)
    before = counted(queue)

    await queue.groups.seek("orders", "__QUEUE_MODE__", "beginning")

    assert counted(queue) == before


async def test_what_was_refused_counts_nothing(queue: Broker, clock: ManualClock) -> None:
    await queue.queues.configure("orders", lease_time=10)
    await queue.push("orders", drafts(1))
    lease = lease_of(await pop(queue))
    clock.advance(11)

    await pop(queue)
    with pytest.raises(LeaseLost):
        await queue.ack(lease)

    assert counted(queue) == {"pushed": 1, "popped": 2}


async def test_the_lag_of_a_delivery_is_the_age_of_its_oldest_message(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(1))
    clock.advance(5)
    await queue.push("orders", drafts(1))
    clock.advance(2)

    await pop(queue, batch=2)

    assert total(queue).lag_max == 7_000_000
    assert total(queue).lag_mean == 7_000_000
