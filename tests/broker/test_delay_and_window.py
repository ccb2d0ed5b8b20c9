"""Messages that may not be delivered yet: too young, or in a partition that is not at rest."""

from skep import Broker
from skep.testing.clock import ManualClock
from tests.support.broker_builders import (
    drafts,
    finish,
    long_poll,
    offsets,
    partitions,
    places,
    pop,
    pop_all,
    turn,
)

A_MICROSECOND = 0.000_001


async def test_a_delayed_message_is_invisible_until_it_is_old_enough(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure("orders", delayed_processing=10)
    await queue.push("orders", drafts(1))

    at_once = await queue.pop("orders")
    clock.advance(10 - A_MICROSECOND)
    just_before = await queue.pop("orders")
    clock.advance(A_MICROSECOND)

    assert (at_once, just_before) == (None, None)
    assert offsets(await pop(queue)) == [0]


async def test_a_delay_holds_back_only_what_is_too_young(queue: Broker, clock: ManualClock) -> None:
    await queue.queues.configure("orders", delayed_processing=10)
    await queue.push("orders", drafts(2))
    clock.advance(5)
    await queue.push("orders", drafts(2, first=2))
    clock.advance(5)

    first = await pop(queue, batch=10)
    await queue.ack(first)
    meanwhile = await queue.pop("orders", batch=10)
    clock.advance(5)

    assert offsets(first) == [0, 1]
    assert meanwhile is None
    assert offsets(await pop(queue, batch=10)) == [2, 3]


async def test_a_delay_in_one_partition_does_not_block_another(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure("orders", delayed_processing=10)
    await queue.push("orders", drafts(1, "bob"))
    clock.advance(9)
    await queue.push("orders", drafts(1, "alice"))
    clock.advance(1)

    delivery = await pop(queue, batch=10, partitions=10)

    assert partitions(delivery) == ["bob"]


async def test_a_delay_of_one_queue_is_none_of_another(queue: Broker) -> None:
    await queue.queues.configure("orders", delayed_processing=10)
    await queue.push("orders", drafts(1))
    await queue.push("invoices", drafts(1))

    delivery = await pop(queue, "invoices")

    assert offsets(delivery) == [0]


async def test_a_poll_is_woken_when_a_delay_is_over(queue: Broker, clock: ManualClock) -> None:
    await queue.queues.configure("orders", delayed_processing=10)
    poll = await long_poll(queue, wait=60)
    await queue.push("orders", drafts(1))

    clock.advance(9)
    await turn()
    meanwhile = poll.done()
    clock.advance(1)

    assert not meanwhile
    assert offsets(await finish(poll)) == [0]


async def test_a_poll_is_woken_for_each_delay_that_is_over(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure("orders", delayed_processing=10)
    found = []
    for number in range(3):
        await queue.push("orders", drafts(1, first=number))
        clock.advance(1)
    clock.advance(6)

    for _ in range(3):
        poll = await long_poll(queue, wait=60)
        clock.advance(1)
        delivery = await finish(poll)
        assert delivery is not None
        found += offsets(delivery)
        await queue.ack(delivery)

    assert found == [0, 1, 2]


async def test_a_delayed_message_keeps_its_delay_after_a_seek(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure("orders", delayed_processing=10)
    await queue.push("orders", drafts(1))
    clock.advance(60)
    await queue.push("orders", drafts(1, first=1))
    assert offsets(await pop(queue, group="mail", batch=2)) == [0]
    await queue.groups.seek("orders", "mail", 1)

    meanwhile = await queue.pop("orders", group="mail")
    clock.advance(10)

    assert meanwhile is None
    assert offsets(await pop(queue, group="mail")) == [1]


async def test_a_delay_that_is_taken_away_hides_nothing_any_more(queue: Broker) -> None:
    await queue.queues.configure("orders", delayed_processing=1000)
    await queue.push("orders", drafts(1))
    poll = await long_poll(queue)

    await queue.queues.configure("orders", delayed_processing=0)

    assert offsets(await finish(poll)) == [0]


async def test_a_delay_that_is_introduced_hides_what_is_too_young(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(1))
    assert await queue.pop("orders", partition="bob") is None

    await queue.queues.configure("orders", delayed_processing=10)

    assert await queue.pop("orders") is None
    clock.advance(10)
    assert offsets(await pop(queue)) == [0]


async def test_an_auto_ack_pop_takes_only_what_is_old_enough(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure("orders", delayed_processing=10)
    await queue.push("orders", drafts(1))
    clock.advance(10)
    await queue.push("orders", drafts(1, first=1))

    first = await pop(queue, batch=10, auto_ack=True)
    meanwhile = await queue.pop("orders", auto_ack=True)
    clock.advance(10)

    assert (offsets(first), meanwhile) == ([0], None)
    assert offsets(await pop(queue, auto_ack=True)) == [1]


# The window.


async def test_a_window_holds_a_partition_back_until_its_newest_message_is_old_enough(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure("orders", window_buffer=10)
    await queue.push("orders", drafts(1))
    clock.advance(9)
    await queue.push("orders", drafts(1, first=1))
    clock.advance(9)
    await queue.push("orders", drafts(1, first=2))

    clock.advance(10 - A_MICROSECOND)
    meanwhile = await queue.pop("orders", batch=10)
    clock.advance(A_MICROSECOND)

    assert meanwhile is None
    assert offsets(await pop(queue, batch=10)) == [0, 1, 2]


async def test_a_push_closes_a_window_that_was_over_already(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure("orders", window_buffer=10)
    await queue.push("orders", drafts(1))
    clock.advance(10)
    await queue.push("orders", drafts(1, first=1))

    meanwhile = await queue.pop("orders", batch=10)
    clock.advance(10)

    assert meanwhile is None
    assert offsets(await pop(queue, batch=10)) == [0, 1]


async def test_a_window_is_of_one_partition(queue: Broker, clock: ManualClock) -> None:
    await queue.queues.configure("orders", window_buffer=10)
    await queue.push("orders", [*drafts(1, "alice"), *drafts(1, "bob")])
    clock.advance(9)
    await queue.push("orders", drafts(1, "alice", first=1))
    clock.advance(1)

    delivery = await pop(queue, batch=10, partitions=10)

    assert places(delivery) == [("bob", 0)]


async def test_a_poll_is_woken_when_a_window_is_over_not_before(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure("orders", window_buffer=10)
    poll = await long_poll(queue, wait=60, batch=10)
    early = []
    for number in range(5):
        await queue.push("orders", drafts(1, first=number))
        clock.advance(9)
        await turn()
        early.append(poll.done())

    clock.advance(1)

    assert early == [False] * 5
    assert offsets(await finish(poll)) == [0, 1, 2, 3, 4]


async def test_what_is_left_of_a_quiet_partition_follows_at_once(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure("orders", window_buffer=10)
    await queue.push("orders", drafts(3))
    clock.advance(10)

    found = await pop_all(queue)

    assert found == [b"0", b"1", b"2"]


async def test_a_window_and_a_delay_must_both_be_over(queue: Broker, clock: ManualClock) -> None:
    await queue.queues.configure("orders", window_buffer=10, delayed_processing=15)
    await queue.push("orders", drafts(1))

    clock.advance(14)
    meanwhile = await queue.pop("orders")
    clock.advance(1)

    assert meanwhile is None
    assert offsets(await pop(queue)) == [0]
