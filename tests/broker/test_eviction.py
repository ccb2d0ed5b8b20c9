"""What waited longer than its queue allows becomes a dead letter."""

import asyncio
from typing import Any

import pytest

from skep import Broker
from skep.core.consume.eviction import STEP
from skep.model.name import QUEUE_MODE
from skep.store.protocol import Store
from skep.testing.clock import ManualClock
from tests.support.broker_builders import (
    backlogs,
    cursors,
    dead,
    drafts,
    finish,
    letters,
    make_broker,
    moment,
    payloads,
    pop,
    pop_all,
    start,
    until,
)

MINUTE = 60
EXCEEDED = "exceeded maximum wait time"


async def impatient(queue: Broker, **options: Any) -> None:
    """A queue whose messages wait a minute at most, with a group that has read nothing."""
    await queue.queues.configure("orders", max_wait_time_seconds=MINUTE, **options)
    await queue.pop("orders")


@pytest.mark.parametrize(("age", "expected"), [(MINUTE, [b"0"]), (MINUTE + 0.000001, [])])
async def test_a_message_is_delivered_as_long_as_it_has_not_waited_too_long(
    queue: Broker, clock: ManualClock, age: float, expected: list[bytes]
) -> None:
    await impatient(queue)
    await queue.push("orders", drafts(1))
    clock.advance(age)

    assert payloads(await queue.pop("orders")) == expected


async def test_a_pop_makes_dead_letters_of_what_waited_too_long(
    queue: Broker, clock: ManualClock
) -> None:
    await impatient(queue)
    await queue.push("orders", drafts(2))
    clock.advance(MINUTE)
    await queue.push("orders", drafts(1, first=2))
    clock.advance(1)

    delivery = await pop(queue, batch=10)

    assert payloads(delivery) == [b"2"]
    assert await dead(queue) == [b"0", b"1"]
    assert {letter.error for letter in await letters(queue)} == {EXCEEDED}


async def test_an_eviction_does_not_hide_what_was_removed(
    queue: Broker, clock: ManualClock
) -> None:
    await impatient(queue)
    await queue.push("orders", drafts(2))
    await queue.queues.clear("orders")
    await queue.push("orders", drafts(1, first=2))
    clock.advance(MINUTE + 1)
    assert await queue.sweep()
    await queue.push("orders", drafts(1, first=3))

    delivery = await pop(queue)

    assert (payloads(delivery), delivery.truncated) == ([b"3"], 2)
    assert await dead(queue) == [b"2"]


async def test_a_sweep_makes_dead_letters_of_what_waited_too_long(
    queue: Broker, clock: ManualClock
) -> None:
    await impatient(queue)
    await queue.push("orders", drafts(2))
    clock.advance(MINUTE)
    await queue.push("orders", drafts(1, first=2))
    clock.advance(1)

    assert await queue.sweep() == 2

    assert await dead(queue) == [b"0", b"1"]
    assert await cursors(queue) == {"Default": 2}
    assert await backlogs(queue) == {"Default": 1}
    assert payloads(await queue.pop("orders", batch=10)) == [b"2"]


async def test_a_dead_letter_says_what_it_was_and_why_it_is_here(
    queue: Broker, clock: ManualClock
) -> None:
    await impatient(queue)
    pushed_at = moment(clock)
    (receipt,) = await queue.push("orders", drafts(1, "alice"), producer="service-a")
    clock.advance(MINUTE + 1)
    await queue.sweep()

    (letter,) = await letters(queue)

    assert (letter.message_id, letter.partition, letter.payload) == (receipt.id, "alice", b"0")
    assert (letter.group, letter.error, letter.attempts) == ("__QUEUE_MODE__", EXCEEDED, 0)
    assert (letter.created_at, letter.failed_at) == (pushed_at, moment(clock))
    assert letter.producer == "service-a"


async def test_sweeping_twice_gives_nothing_up_twice(queue: Broker, clock: ManualClock) -> None:
    await impatient(queue)
    await queue.push("orders", drafts(2))
    clock.advance(MINUTE + 1)
    await queue.sweep()

    assert await queue.sweep() == 0

    assert len(await letters(queue)) == 2


async def test_each_group_gives_up_for_itself(queue: Broker, clock: ManualClock) -> None:
    await impatient(queue)
    await queue.pop("orders", group="slow")
    await queue.push("orders", drafts(3))
    await queue.ack(await pop(queue, batch=2))
    clock.advance(MINUTE + 1)

    assert await queue.sweep() == 4

    found = [(letter.group, letter.payload) for letter in await letters(queue)]
    assert sorted(found) == [
        ("__QUEUE_MODE__", b"2"),
        ("slow", b"0"),
        ("slow", b"1"),
        ("slow", b"2"),
    ]


async def test_a_pop_gives_up_for_its_own_group_only(queue: Broker, clock: ManualClock) -> None:
    await impatient(queue)
    await queue.pop("orders", group="other")
    await queue.push("orders", drafts(1))
    clock.advance(MINUTE + 1)

    await queue.pop("orders")

    assert [letter.group for letter in await letters(queue)] == ["__QUEUE_MODE__"]


async def test_the_message_itself_stays_in_the_queue(queue: Broker, clock: ManualClock) -> None:
    await impatient(queue)
    (receipt,) = await queue.push("orders", drafts(1))
    clock.advance(MINUTE + 1)

    await queue.sweep()

    assert (await queue.messages.get(receipt.id)).payload == b"0"
    assert (await queue.queues.stats("orders")).messages == 1


async def test_leased_messages_are_left_alone(queue: Broker, clock: ManualClock) -> None:
    await impatient(queue, lease_time=3600)
    await queue.push("orders", drafts(2))
    delivery = await pop(queue)
    clock.advance(MINUTE + 1)

    assert await queue.sweep() == 0

    assert (await queue.ack(delivery)).completed == 1
    assert await queue.sweep() == 1
    assert await dead(queue) == [b"1"]


async def test_a_lease_that_ran_out_does_not_protect_any_more(
    queue: Broker, clock: ManualClock
) -> None:
    await impatient(queue, lease_time=10)
    await queue.push("orders", drafts(1))
    await pop(queue)
    clock.advance(MINUTE + 1)

    assert await queue.sweep() == 1

    (letter,) = await letters(queue)
    assert (letter.payload, letter.attempts) == (b"0", 1)


async def test_what_was_acknowledged_beyond_the_cursor_is_not_given_up(
    queue: Broker, clock: ManualClock
) -> None:
    await impatient(queue, lease_time=10)
    await queue.push("orders", drafts(4))
    delivery = await pop(queue, batch=3)
    await queue.ack(delivery, delivery.messages[1:2])
    clock.advance(MINUTE + 1)

    assert await queue.sweep() == 3

    assert await dead(queue) == [b"0", b"2", b"3"]
    assert await cursors(queue) == {"Default": 4}


async def test_a_message_that_was_deleted_is_not_given_up(
    queue: Broker, clock: ManualClock
) -> None:
    await impatient(queue)
    receipts = await queue.push("orders", drafts(3))
    await queue.messages.delete(receipts[1].id)
    clock.advance(MINUTE + 1)

    assert await queue.sweep() == 2

    assert await dead(queue) == [b"0", b"2"]


async def test_more_than_one_step_is_given_up_in_one_sweep(
    queue: Broker, clock: ManualClock
) -> None:
    await impatient(queue)
    count = 2 * STEP + 7
    await queue.push("orders", drafts(count))
    clock.advance(MINUTE + 1)

    assert await queue.sweep() == count

    assert await queue.dead_letters.count("orders") == count
    assert await cursors(queue) == {"Default": count}


async def test_every_partition_is_looked_at(queue: Broker, clock: ManualClock) -> None:
    await impatient(queue)
    for n in range(5):
        await queue.push("orders", drafts(1, f"p{n}", first=n))
    clock.advance(MINUTE + 1)

    assert await queue.sweep() == 5

    assert await dead(queue) == [b"%d" % n for n in range(5)]


async def test_a_pop_goes_on_to_the_next_partition_when_one_had_only_old_messages(
    queue: Broker, clock: ManualClock
) -> None:
    await impatient(queue)
    await queue.push("orders", drafts(1, "alice"))
    clock.advance(MINUTE + 1)
    await queue.push("orders", drafts(1, "bob", first=1))

    assert payloads(await queue.pop("orders")) == [b"1"]
    assert await dead(queue) == [b"0"]


async def test_without_a_group_nobody_gives_up(queue: Broker, clock: ManualClock) -> None:
    await queue.queues.configure("orders", max_wait_time_seconds=MINUTE)
    await queue.push("orders", drafts(1))
    clock.advance(MINUTE + 1)

    assert await queue.sweep() == 0


async def test_a_queue_without_a_maximum_waits_for_ever(queue: Broker, clock: ManualClock) -> None:
    await queue.pop("orders")
    await queue.push("orders", drafts(1))
    clock.advance(10_000 * MINUTE)

    assert await queue.sweep() == 0

    assert await pop_all(queue) == [b"0"]


async def test_the_history_says_evicted(queue: Broker, clock: ManualClock) -> None:
    await impatient(queue)
    (receipt, *_) = await queue.push("orders", drafts(2))
    clock.advance(MINUTE + 1)
    await queue.sweep()

    (line,) = await queue.queues.removals("orders")

    assert (line.kind, line.messages) == ("evicted", 2)
    assert (line.partition, line.executed_at) == (receipt.partition_number, clock.now())


async def test_what_a_pop_gave_up_is_in_the_history_too(queue: Broker, clock: ManualClock) -> None:
    await impatient(queue)
    await queue.push("orders", drafts(2))
    clock.advance(MINUTE + 1)

    assert await queue.pop("orders") is None

    history = await queue.queues.removals("orders")
    assert [(line.kind, line.messages) for line in history] == [("evicted", 2)]


async def test_who_waits_is_not_woken_for_what_is_given_up(
    queue: Broker, clock: ManualClock
) -> None:
    await impatient(queue, delayed_processing=2 * MINUTE)
    await queue.push("orders", drafts(1))
    waiting = await start(queue.pop("orders", wait=3600))

    clock.advance(2 * MINUTE)
    await until(lambda: dead(queue))

    assert not waiting.done()
    assert await dead(queue) == [b"0"]
    await queue.queues.configure("orders")
    await queue.push("orders", drafts(1, first=1))
    assert payloads(await waiting) == [b"1"]


async def test_what_was_given_up_stays_given_up_for_the_next_process(
    store: Store, clock: ManualClock
) -> None:
    before = await make_broker(store).__aenter__()
    await impatient(before)
    await before.push("orders", drafts(2))
    clock.advance(MINUTE + 1)
    await before.sweep()

    async with make_broker(store) as after:
        assert await after.sweep() == 0
        assert await after.pop("orders") is None
        assert await dead(after) == [b"0", b"1"]


@pytest.mark.timeout(10)
@pytest.mark.parametrize("what", ["group", "queue"])
async def test_a_pop_that_gives_up_for_a_group_that_is_deleted_comes_to_its_end(
    queue: Broker, clock: ManualClock, what: str
) -> None:
    await impatient(queue)
    await queue.push("orders", drafts(1))
    clock.advance(MINUTE + 1)
    late = asyncio.create_task(queue.pop("orders"))
    await asyncio.sleep(0)

    if what == "group":
        await queue.groups.delete("orders", QUEUE_MODE)
    else:
        await queue.queues.delete("orders")

    assert await finish(late) is None


@pytest.mark.timeout(10)
async def test_a_sweep_that_gives_up_in_a_queue_that_is_deleted_comes_to_its_end(
    queue: Broker, clock: ManualClock
) -> None:
    await impatient(queue)
    await queue.push("orders", drafts(1))
    clock.advance(MINUTE + 1)
    sweep = asyncio.create_task(queue.sweep())
    await asyncio.sleep(0)

    await queue.queues.delete("orders")

    await finish(sweep)
    await queue.queues.configure("orders")
    assert await queue.queues.removals("orders") == []
