"""What a group was promised before a restart holds after it."""

from datetime import timedelta

import pytest

from skep import Ack, Push
from skep.errors import LeaseLost
from skep.model.operation import Operation
from skep.testing.clock import ManualClock
from tests.support.broker_builders import (
    Settled,
    backlogs,
    cursors,
    dead,
    drafts,
    lease_of,
    letters,
    moment,
    of,
    offsets,
    payloads,
    places,
    pop,
    pop_all,
)
from tests.support.latency_builders import latencies, took
from tests.support.restartable_broker import Restarts

HOUR = 3600
frozen = pytest.mark.timeout(10)
"""For what must not stop the event loop: nobody else could end the test."""


async def test_messages_survive(server: Restarts) -> None:
    async with server.run() as queue:
        await queue.push("orders", drafts(3))

    async with server.run() as queue:
        assert payloads(await pop(queue, batch=3)) == [b"0", b"1", b"2"]


async def test_a_cursor_survives(server: Restarts) -> None:
    async with server.run() as queue:
        await queue.push("orders", drafts(3))
        await queue.ack(await pop(queue, batch=2))

    async with server.run() as queue:
        assert await cursors(queue) == {"Default": 2}
        assert offsets(await pop(queue, batch=3)) == [2]


async def test_offsets_go_on_where_they_ended(server: Restarts) -> None:
    async with server.run() as queue:
        await queue.push("orders", drafts(3))

    async with server.run() as queue:
        receipts = await queue.push("orders", drafts(2, first=3))

    assert [receipt.offset for receipt in receipts] == [3, 4]


async def test_a_lease_survives_and_hides_its_partition(
    server: Restarts, clock: ManualClock
) -> None:
    async with server.run() as queue:
        await queue.push("orders", drafts(1))
        await pop(queue, lease_seconds=60)

    clock.advance(59)
    async with server.run() as queue:
        meanwhile = await queue.pop("orders")
        clock.advance(1)

        assert meanwhile is None
        assert [m.attempt for m in (await pop(queue)).messages] == [2]


async def test_a_lease_can_be_acked_after_a_restart(server: Restarts) -> None:
    async with server.run() as queue:
        await queue.push("orders", [*drafts(2, "alice"), *drafts(2, "bob")])
        delivery = await pop(queue, batch=4, partitions=2)

    async with server.run() as queue:
        settlement = await queue.ack(delivery)

        assert settlement == Settled(completed=4, released=True)
        assert await cursors(queue) == {"alice": 2, "bob": 2}


async def test_a_lease_can_be_extended_after_a_restart(
    server: Restarts, clock: ManualClock
) -> None:
    async with server.run() as queue:
        await queue.push("orders", drafts(1))
        delivery = await pop(queue, lease_seconds=10)

    async with server.run() as queue:
        until = await queue.extend(lease_of(delivery), 60)
    assert until == moment(clock, 60)

    clock.advance(59)
    async with server.run() as queue:
        assert await queue.pop("orders") is None


async def test_a_lease_that_expired_while_nobody_served_is_lost(
    server: Restarts, clock: ManualClock
) -> None:
    async with server.run() as queue:
        await queue.push("orders", drafts(1))
        delivery = await pop(queue, lease_seconds=10)

    clock.advance(10)
    async with server.run() as queue:
        with pytest.raises(LeaseLost):
            await queue.ack(delivery)

        assert offsets(await pop(queue)) == [0]


async def test_what_was_acked_out_of_order_survives(server: Restarts, clock: ManualClock) -> None:
    async with server.run() as queue:
        await queue.push("orders", drafts(6))
        delivery = await pop(queue, batch=6, lease_seconds=10)
        await queue.ack(delivery, [delivery.messages[i] for i in (1, 2, 5)])

    clock.advance(10)
    async with server.run() as queue:
        assert await cursors(queue) == {"Default": 0}
        assert await backlogs(queue) == {"Default": 3}
        assert offsets(await pop(queue, batch=6)) == [0, 3, 4]


async def test_the_end_of_a_run_survives(server: Restarts, clock: ManualClock) -> None:
    async with server.run() as queue:
        await queue.push("orders", drafts(2))
        await pop(queue, batch=10, lease_seconds=10)
        await queue.push("orders", drafts(2, first=2))

    clock.advance(10)
    async with server.run() as queue:
        again = await pop(queue, batch=10)

        assert [(m.offset, m.attempt) for m in again.messages] == [(0, 2), (1, 2)]


async def test_what_was_acked_under_the_lease_still_makes_a_failure_partial(
    server: Restarts,
) -> None:
    async with server.run() as queue:
        await queue.push("orders", drafts(2))
        delivery = await pop(queue, batch=2)
        await queue.ack(delivery, delivery.messages[:1])

    async with server.run() as queue:
        settlement = await queue.fail(delivery, delivery.messages[1:])

        assert settlement == Settled(dead_letters=1, released=True)


async def test_a_retry_waits_as_long_as_before(server: Restarts, clock: ManualClock) -> None:
    async with server.run() as queue:
        await queue.push("orders", drafts(1))
        settlement = await queue.fail(await pop(queue))
    assert settlement.retry_at is not None
    delay = (settlement.retry_at - moment(clock)).total_seconds()

    clock.advance(delay - 0.001)
    async with server.run() as queue:
        meanwhile = await queue.pop("orders")
        clock.advance(0.001)

        assert meanwhile is None
        assert [m.attempt for m in (await pop(queue)).messages] == [2]


async def test_the_number_of_retries_survives(server: Restarts, clock: ManualClock) -> None:
    async with server.run() as queue:
        await queue.queues.configure("orders", retry_limit=2)
        await queue.push("orders", drafts(1))
    for _ in range(2):
        async with server.run() as queue:
            settlement = await queue.fail(await pop(queue))
            assert settlement.retry_at is not None
        clock.advance(HOUR)

    async with server.run() as queue:
        settlement = await queue.fail(await pop(queue), error="for ever")

        assert settlement == Settled(dead_letters=1, released=True)
        assert [(x.error, x.attempts) for x in await letters(queue)] == [("for ever", 3)]


async def test_open_failures_survive(server: Restarts) -> None:
    async with server.run() as queue:
        await queue.push("orders", drafts(3))
        delivery = await pop(queue, batch=3)
        await queue.fail(delivery, delivery.messages[1:2], error="no")

    async with server.run() as queue:
        settlement = await queue.ack(delivery)

        assert settlement == Settled(completed=2, dead_letters=1, released=True)
        assert [(x.payload, x.error) for x in await letters(queue)] == [(b"1", "no")]


async def test_dead_letters_survive_and_do_not_come_again(server: Restarts) -> None:
    async with server.run() as queue:
        await queue.push("orders", drafts(2))
        delivery = await pop(queue, batch=2)
        await queue.ack(delivery, delivery.messages[:1])
        await queue.fail(delivery, delivery.messages[1:])

    async with server.run() as queue:
        assert await dead(queue) == [b"1"]
        assert await queue.pop("orders", batch=2) is None


async def test_a_subscription_survives(server: Restarts) -> None:
    async with server.run() as queue:
        await queue.push("orders", drafts(2, "alice"))
        await queue.pop("orders", group="mail", subscription_mode="new")

    async with server.run() as queue:
        assert await queue.pop("orders", group="mail", subscription_mode="all") is None
        await queue.push("orders", [*drafts(1, "alice", first=2), *drafts(1, "bob")])
        delivery = await pop(queue, group="mail", batch=10, partitions=10)

    assert sorted(places(delivery)) == [("alice", 2), ("bob", 0)]


async def test_a_deleted_group_stays_deleted(server: Restarts) -> None:
    async with server.run() as queue:
        await queue.push("orders", drafts(2))
        await queue.ack(await pop(queue, group="mail", batch=2))
        await queue.groups.delete("orders", "mail")

    async with server.run() as queue:
        assert await queue.groups.list("orders") == []
        assert offsets(await pop(queue, group="mail", batch=2)) == [0, 1]


async def test_a_seek_survives(server: Restarts) -> None:
    async with server.run() as queue:
        await queue.push("orders", drafts(4))
        delivery = await pop(queue, group="mail", batch=4)
        await queue.ack(delivery, delivery.messages[2:3])
        await queue.groups.seek("orders", "mail", 1)

    async with server.run() as queue:
        with pytest.raises(LeaseLost):
            await queue.ack(delivery)
        assert offsets(await pop(queue, group="mail", batch=4)) == [1, 2, 3]


async def test_a_delay_survives(server: Restarts, clock: ManualClock) -> None:
    async with server.run() as queue:
        await queue.queues.configure("orders", delayed_processing=10)
        await queue.push("orders", drafts(1))

    clock.advance(9)
    async with server.run() as queue:
        meanwhile = await queue.pop("orders")
        clock.advance(1)

        assert meanwhile is None
        assert offsets(await pop(queue)) == [0]


async def test_a_window_survives(server: Restarts, clock: ManualClock) -> None:
    async with server.run() as queue:
        await queue.queues.configure("orders", window_buffer=10)
        await queue.push("orders", drafts(1))
        clock.advance(5)
        await queue.push("orders", drafts(1, first=1))

    clock.advance(9)
    async with server.run() as queue:
        meanwhile = await queue.pop("orders", batch=2)
        clock.advance(1)

        assert meanwhile is None
        assert offsets(await pop(queue, batch=2)) == [0, 1]


async def test_a_transaction_repeated_after_a_restart_happened_once(server: Restarts) -> None:
    async with server.run() as queue:
        await queue.push("orders", drafts(1))
        lease = lease_of(await pop(queue))
        operations: list[Operation] = [Push("invoices", drafts(1)), Ack(lease)]
        first = await queue.transact(operations, idempotency_key="k")

    async with server.run() as queue:
        again = await queue.transact(operations, idempotency_key="k")

        assert (again.receipts, again.repeated) == (first.receipts, True)
        assert await backlogs(queue) == {"Default": 0}
        assert await pop_all(queue, "invoices") == [b"0"]


async def test_the_oldest_message_still_comes_first(server: Restarts, clock: ManualClock) -> None:
    async with server.run() as queue:
        for name in ("zoe", "alice", "mike"):
            await queue.push("orders", drafts(1, name))
            clock.advance(1)

    async with server.run() as queue:
        deliveries = [await pop(queue) for _ in range(3)]

        assert [m.partition for each in deliveries for m in each.messages] == [
            "zoe",
            "alice",
            "mike",
        ]


async def test_a_lease_that_was_partly_released_survives_for_the_rest(server: Restarts) -> None:
    async with server.run() as queue:
        await queue.push("orders", [*drafts(1, "alice"), *drafts(1, "bob")])
        delivery = await pop(queue, batch=2, partitions=2)
        await queue.ack(delivery, of(delivery, "alice"))

    async with server.run() as queue:
        settlement = await queue.ack(delivery)

        assert settlement == Settled(completed=1, released=True)


# The clock was set back while nobody served.


@frozen
async def test_messages_are_delivered_after_the_clock_went_back(
    server: Restarts, clock: ManualClock
) -> None:
    async with server.run() as queue:
        await queue.push("orders", drafts(2))

    clock.advance(-1)
    async with server.run() as queue:
        await queue.push("orders", drafts(1, first=2))

        assert payloads(await pop(queue, batch=3)) == [b"0", b"1", b"2"]


@frozen
async def test_a_lease_lasts_no_longer_than_its_own_duration_after_the_clock_went_back(
    server: Restarts, clock: ManualClock
) -> None:
    async with server.run() as queue:
        await queue.push("orders", drafts(1))
        await pop(queue, lease_seconds=30)

    clock.advance(-24 * HOUR)
    async with server.run() as queue:
        meanwhile = await queue.pop("orders")
        clock.advance(29)
        still = await queue.pop("orders")
        clock.advance(1)

        assert (meanwhile, still) == (None, None)
        assert offsets(await pop(queue)) == [0]


@frozen
async def test_a_lease_can_still_be_acked_after_the_clock_went_back(
    server: Restarts, clock: ManualClock
) -> None:
    async with server.run() as queue:
        await queue.push("orders", drafts(1))
        delivery = await pop(queue, lease_seconds=30)

    clock.advance(-24 * HOUR)
    async with server.run() as queue:
        assert await queue.ack(delivery) == Settled(completed=1, released=True)


@frozen
async def test_an_ack_after_lease_expiry_is_rejected_although_the_clock_was_set_back(
    server: Restarts, clock: ManualClock
) -> None:
    async with server.run() as queue:
        await queue.push("orders", drafts(1))
        delivery = await pop(queue, lease_seconds=30)

    clock.advance(-24 * HOUR)
    async with server.run() as queue:
        clock.advance(30)
        with pytest.raises(LeaseLost):
            await queue.ack(delivery)

        assert offsets(await pop(queue)) == [0]


@frozen
async def test_a_retry_waits_no_longer_than_its_own_delay_after_the_clock_went_back(
    server: Restarts, clock: ManualClock
) -> None:
    async with server.run() as queue:
        await queue.queues.configure("orders", retry_delay=1000)
        await queue.push("orders", drafts(1))
        await queue.fail(await pop(queue))

    clock.advance(-24 * HOUR)
    async with server.run() as queue:
        clock.advance(HOUR)

        assert offsets(await queue.pop("orders")) == [0]


@frozen
async def test_no_delayed_message_is_lost_when_the_clock_went_back(
    server: Restarts, clock: ManualClock
) -> None:
    """A message that is visible early must not carry the cursor past one that is not yet."""
    async with server.run() as queue:
        await queue.queues.configure("orders", delayed_processing=10)
        await queue.push("orders", drafts(1))
        start = moment(clock) - timedelta(days=2)

    clock.advance(-100)
    async with server.run() as queue:
        await queue.push("orders", drafts(1, first=1))
        clock.advance(15)
        found: list[bytes] = []
        for _ in range(13):
            found += await pop_all(queue, group="mail", batch=10, subscription_from=start)
            clock.advance(10)

    assert found == [b"0", b"1"]


async def test_latencies_survive_with_those_of_the_open_minute(
    server: Restarts, clock: ManualClock
) -> None:
    async with server.run() as queue:
        for _ in range(2):
            await queue.push("orders", drafts(1))
            delivery = await pop(queue)
            clock.advance(30)
            await queue.ack(delivery)
            clock.advance(30)
        await queue.push("orders", drafts(2))
        await queue.ack(await pop(queue))

    async with server.run() as queue:
        clock.advance(5)
        await queue.ack(await pop(queue))

        assert await latencies(queue) == {
            0: took({30: 1}),
            1: took({30: 1}),
            2: took({0: 1, 5: 1}),
        }


async def test_how_long_a_message_took_is_not_known_to_who_did_not_hand_it_out(
    server: Restarts, clock: ManualClock
) -> None:
    async with server.run() as queue:
        await queue.push("orders", drafts(1))
        lease = lease_of(await pop(queue))

    async with server.run() as queue:
        await queue.ack(lease)

        assert await latencies(queue) == {}
