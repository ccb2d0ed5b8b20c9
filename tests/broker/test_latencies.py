"""How long messages took from their push to their ack."""

import asyncio

import pytest

from skep import Ack, Broker, Push
from skep.core.metrics.latency_history import KEEP
from skep.model.name import SECOND
from skep.store.protocol import Store
from skep.testing.clock import NOON, ManualClock
from tests.support.broker_builders import (
    drafts,
    finish,
    lease_of,
    letters,
    make_broker,
    pop,
    start,
    until,
)
from tests.support.gated_store import GatedStore
from tests.support.latency_builders import ALWAYS, MINUTE, latencies, took

pytestmark = pytest.mark.one_server("a server measures what it delivered itself")


async def push_slowly(queue: Broker, clock: ManualClock) -> None:
    """Two messages that are 6 seconds old, one of 3, and three of none."""
    await queue.push("orders", drafts(2))
    clock.advance(3)
    await queue.push("orders", drafts(1))
    clock.advance(3)
    await queue.push("orders", drafts(3))


async def test_each_message_counts_with_its_age_at_the_ack(
    queue: Broker, clock: ManualClock
) -> None:
    await push_slowly(queue, clock)
    delivery = await pop(queue, batch=5)
    clock.advance(1)

    await queue.ack(delivery)

    assert await latencies(queue) == {0: took({7: 2, 4: 1, 1: 2})}


async def test_the_next_run_begins_within_a_push(queue: Broker, clock: ManualClock) -> None:
    await push_slowly(queue, clock)
    await queue.ack(await pop(queue, batch=1))
    delivery = await pop(queue, batch=5)
    clock.advance(1)

    await queue.ack(delivery)

    assert await latencies(queue) == {0: took({6: 1, 7: 1, 4: 1, 1: 3})}


async def test_a_part_counts_when_it_is_acknowledged_and_in_any_order(
    queue: Broker, clock: ManualClock
) -> None:
    await push_slowly(queue, clock)
    delivery = await pop(queue, batch=6)

    await queue.ack(delivery, [delivery.messages[1], delivery.messages[4]])
    clock.advance(10)
    await queue.ack(delivery, delivery.messages[:1])
    clock.advance(10)
    await queue.ack(delivery)

    assert await latencies(queue) == {0: took({6: 1, 0: 1, 16: 1, 23: 1, 20: 2})}


async def test_acks_that_are_committed_together_count_once_each(
    queue: Broker, clock: ManualClock
) -> None:
    await push_slowly(queue, clock)
    delivery = await pop(queue, batch=6)
    clock.advance(1)

    await asyncio.gather(*(queue.ack(delivery, [message]) for message in delivery.messages))

    assert await latencies(queue) == {0: took({7: 2, 4: 1, 1: 3})}


async def test_what_is_given_up_does_not_count(queue: Broker, clock: ManualClock) -> None:
    await push_slowly(queue, clock)
    delivery = await pop(queue, batch=6)
    await queue.fail(delivery, [delivery.messages[0], delivery.messages[2]])

    await queue.ack(delivery)

    assert len(await letters(queue)) == 2
    assert await latencies(queue) == {0: took({6: 1, 0: 3})}


async def test_what_is_deleted_does_not_count(queue: Broker, clock: ManualClock) -> None:
    await push_slowly(queue, clock)
    delivery = await pop(queue, batch=6)
    await queue.fail(delivery)
    await queue.messages.delete(delivery.messages[0].id)
    clock.advance(4)

    await queue.ack(await pop(queue, batch=6))

    assert await latencies(queue) == {0: took({10: 1, 7: 1, 4: 3})}


async def test_what_is_tried_again_counts_once_and_from_its_push(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure("orders", retry_limit=1, retry_delay=0, lease_time=10)
    await queue.push("orders", drafts(2))
    await queue.fail(await pop(queue, batch=2))
    await pop(queue, batch=2)
    clock.advance(11)

    await queue.ack(await pop(queue, batch=2))

    assert await latencies(queue) == {0: took({11: 2})}


async def test_what_is_acknowledged_when_it_is_popped_does_not_count(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure("orders", lease_time=10)
    await push_slowly(queue, clock)
    await pop(queue, batch=6)
    clock.advance(11)

    await pop(queue, batch=6, auto_ack=True)

    assert await latencies(queue) == {}


async def test_acks_of_a_transaction_count(queue: Broker, clock: ManualClock) -> None:
    await push_slowly(queue, clock)
    lease = lease_of(await pop(queue, batch=3))

    await queue.transact([Push("payments", drafts(1)), Ack(lease)])

    assert await latencies(queue) == {0: took({6: 2, 3: 1})}


async def test_groups_and_queues_are_told_apart(queue: Broker, clock: ManualClock) -> None:
    await queue.push("orders", drafts(1))
    await queue.push("payments", drafts(2))
    await queue.ack(await pop(queue, group="billing"))
    clock.advance(5)

    await queue.ack(await pop(queue, group="reports"))
    await queue.ack(await pop(queue, "payments", batch=2, group="billing"))

    assert await latencies(queue, group="billing") == {0: took({0: 1})}
    assert await latencies(queue, group="reports") == {0: took({5: 1})}
    assert await latencies(queue, "payments", "billing") == {0: took({5: 2})}


async def test_a_minute_is_shown_once_whether_it_is_kept_or_not(
    queue: Broker, clock: ManualClock
) -> None:
    for _ in range(3):
        await queue.push("orders", drafts(1))
        await queue.ack(await pop(queue))
        clock.advance(60)
    before = await latencies(queue)

    await queue.insight.latencies.keep()

    assert before == {minute: took({0: 1}) for minute in (0, 1, 2)}
    assert await latencies(queue) == before


async def test_a_page_ends_with_a_minute_and_the_next_begins_there(
    queue: Broker, clock: ManualClock
) -> None:
    for _ in range(3):
        for group in ("billing", "reports"):
            await queue.push("orders", drafts(1))
            await queue.ack(await pop(queue, group=group))
        clock.advance(60)
    log = queue.insight.latencies

    rows, then = await log.between(lambda name: True, NOON, ALWAYS, limit=3)
    assert then == NOON + 2 * MINUTE
    rest, end = await log.between(lambda name: True, then, ALWAYS, limit=3)

    assert [((row.begins_at - NOON) // MINUTE, row.group) for row in rows] == [
        (0, "billing"),
        (0, "reports"),
        (1, "billing"),
        (1, "reports"),
    ]
    assert [(row.begins_at - NOON) // MINUTE for row in rest] == [2, 2]
    assert end is None


async def test_only_the_minutes_that_are_asked_for_are_shown(
    queue: Broker, clock: ManualClock
) -> None:
    for _ in range(4):
        await queue.push("orders", drafts(1))
        await queue.ack(await pop(queue))
        clock.advance(60)
    await queue.insight.latencies.keep()

    rows, _ = await queue.insight.latencies.between(
        lambda name: True, NOON + MINUTE + SECOND, NOON + 2 * MINUTE, limit=10
    )

    assert [(row.begins_at - NOON) // MINUTE for row in rows] == [1, 2]


async def test_what_is_a_week_old_is_swept(queue: Broker, clock: ManualClock) -> None:
    """More than are read at once."""
    for _ in range(120):
        await queue.push("orders", drafts(1))
        await queue.ack(await pop(queue))
        clock.advance(60)
        await queue.insight.latencies.keep()
    before = list(await latencies(queue))
    clock.set(NOON + KEEP + 115 * MINUTE)

    await queue.sweep()

    assert before == list(range(120))
    assert list(await latencies(queue)) == [115, 116, 117, 118, 119]


async def test_only_a_minute_that_is_over_is_kept_and_once(
    store: Store, clock: ManualClock
) -> None:
    async with make_broker(store) as queue:
        log = queue.insight.latencies
        await queue.push("orders", drafts(1))
        await queue.ack(await pop(queue))

        await log.keep()
        assert await kept(store) == 0
        clock.advance(60)
        await log.keep()
        await log.keep()

        assert await kept(store) == 1


async def test_a_minute_that_could_not_be_kept_is_kept_later(
    held: GatedStore, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with make_broker(held) as queue:
        await queue.push("orders", drafts(1))
        await queue.ack(await pop(queue))
        clock.advance(60)
        held.fail_next()

        queue.insight.latencies.start(0.001)
        await until(lambda: kept(held))

        assert "could not store latencies, retrying" in caplog.text
        assert await latencies(queue) == {0: took({0: 1})}


async def test_a_minute_is_shown_once_while_it_is_being_kept(
    held: GatedStore, clock: ManualClock
) -> None:
    async with make_broker(held) as queue:
        await queue.push("orders", drafts(1))
        await queue.ack(await pop(queue))
        clock.advance(60)
        held.hold_answers()

        keeping = await start(queue.insight.latencies.keep())
        shown = await latencies(queue)
        held.release()
        await finish(keeping)

        assert shown == {0: took({0: 1})}


async def test_an_ack_that_is_under_way_at_the_end_is_kept(
    held: GatedStore, clock: ManualClock
) -> None:
    queue = await make_broker(held).__aenter__()
    await queue.push("orders", drafts(1))
    delivery = await pop(queue)
    held.hold()
    acking = await start(queue.ack(delivery))

    closing = await start(queue.close())
    held.release()
    await finish(acking)
    await finish(closing)

    assert await kept(held) == 1


async def test_a_broker_ends_although_its_latencies_cannot_be_kept(
    held: GatedStore, caplog: pytest.LogCaptureFixture
) -> None:
    async with make_broker(held) as queue:
        await queue.push("orders", drafts(1))
        await queue.ack(await pop(queue))
        held.fail_next()

    assert "could not store the latencies of the last minute" in caplog.text


async def kept(store: Store) -> int:
    """How many minutes are in the store."""
    return len(await store.list_entries("latencies", limit=10))
