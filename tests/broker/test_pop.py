"""What a pop delivers: the next messages of a partition, in order, each of them once."""

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest

from skep import Broker, Draft, Limits, Message, Verdict
from skep.errors import Invalid
from skep.model.name import QUEUE_MODE
from skep.store.protocol import Store
from skep.testing.clock import ManualClock
from tests.support.broker_builders import (
    backlogs,
    cursors,
    drafts,
    letters,
    make_broker,
    moment,
    offsets,
    partitions,
    payloads,
    pop,
    pop_all,
)

TRACE = UUID("0190163d-8694-739b-aea5-966c26f8ad90")
MB = 1 << 20


async def test_an_empty_queue_gives_nothing(queue: Broker) -> None:
    await queue.queues.configure("orders")

    delivery = await queue.pop("orders")

    assert delivery is None


async def test_a_pop_from_a_queue_that_does_not_exist_gives_nothing_and_makes_none(
    queue: Broker,
) -> None:
    delivery = await queue.pop("orders", partition="alice")

    assert delivery is None
    assert await queue.queues.list() == []


async def test_messages_come_in_the_order_of_their_offsets(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    await queue.push("orders", drafts(2, first=3))

    delivery = await pop(queue, batch=10)

    assert offsets(delivery) == [0, 1, 2, 3, 4]
    assert payloads(delivery) == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_pop_gives_one_message_unless_more_are_asked_for(queue: Broker) -> None:
    await queue.push("orders", drafts(3))

    delivery = await pop(queue)

    assert offsets(delivery) == [0]


async def test_a_pop_gives_no_more_than_its_batch(queue: Broker) -> None:
    await queue.push("orders", drafts(5))

    delivery = await pop(queue, batch=3)

    assert offsets(delivery) == [0, 1, 2]


async def test_a_pop_goes_on_where_the_last_acknowledged_one_ended(queue: Broker) -> None:
    await queue.push("orders", drafts(5))
    await queue.ack(await pop(queue, batch=3))

    delivery = await pop(queue, batch=3)

    assert offsets(delivery) == [3, 4]


async def test_what_is_done_never_comes_again(queue: Broker) -> None:
    await queue.push("orders", drafts(5))
    await queue.ack(await pop(queue, batch=5))

    delivery = await queue.pop("orders", batch=5)

    assert delivery is None


async def test_a_partition_is_read_in_order_to_its_end_whatever_the_batches(queue: Broker) -> None:
    for first in range(0, 60, 4):
        await queue.push("orders", drafts(4, first=first))

    found = await pop_all(queue, batch=7)

    assert found == [b"%d" % number for number in range(60)]


async def test_a_message_comes_with_everything_its_producer_gave_it(
    queue: Broker, clock: ManualClock
) -> None:
    draft = Draft(b'{"b":1, "a":\x00}', "alice", "order-1", TRACE)
    (receipt,) = await queue.push("orders", [draft], producer="till")

    delivery = await pop(queue, group="billing")

    assert delivery.group == "billing"
    assert delivery.messages == [
        Message(
            queue="orders",
            partition="alice",
            partition_number=receipt.partition_number,
            offset=0,
            payload=b'{"b":1, "a":\x00}',
            chosen_id="order-1",
            trace=TRACE.bytes,
            producer="till",
            created_at=moment(clock),
            attempt=1,
        )
    ]
    assert delivery.messages[0].id == receipt.id
    assert delivery.messages[0].trace_id == TRACE


async def test_who_names_no_group_is_in_queue_mode(queue: Broker) -> None:
    await queue.push("orders", drafts(1))

    delivery = await pop(queue)

    assert delivery.group == QUEUE_MODE
    assert [lag.group for lag in await queue.groups.list("orders")] == [QUEUE_MODE]


async def test_a_pop_from_a_partition_takes_from_no_other(queue: Broker) -> None:
    await queue.push("orders", [*drafts(1, "alice"), *drafts(1, "bob")])

    first = await pop(queue, partition="bob", batch=10, partitions=10)
    second = await queue.pop("orders", partition="bob")

    assert partitions(first) == ["bob"]
    assert second is None


async def test_a_partition_that_does_not_exist_gives_nothing(queue: Broker) -> None:
    await queue.push("orders", drafts(1, "alice"))

    delivery = await queue.pop("orders", partition="bob")

    assert delivery is None


async def test_pops_at_the_same_time_never_share_a_message(queue: Broker) -> None:
    for name in ("alice", "bob", "carol"):
        await queue.push("orders", drafts(2, name))

    deliveries = await asyncio.gather(*(queue.pop("orders", batch=2) for _ in range(8)))

    held = [m.id for delivery in deliveries if delivery for m in delivery.messages]
    assert len(held) == len(set(held)) == 6


# What is acknowledged at once.


async def test_an_auto_ack_pop_is_done_when_it_returns(queue: Broker) -> None:
    await queue.push("orders", drafts(3))

    delivery = await pop(queue, batch=2, auto_ack=True)

    assert offsets(delivery) == [0, 1]
    assert (delivery.lease_id, delivery.expires_at) == (None, None)
    assert await cursors(queue) == {"Default": 2}


async def test_auto_ack_pops_follow_each_other_without_waiting(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    await pop(queue, auto_ack=True)

    delivery = await pop(queue, batch=5, auto_ack=True)

    assert offsets(delivery) == [1, 2]
    assert await queue.pop("orders", auto_ack=True) is None


async def test_an_auto_ack_delivery_has_nothing_to_acknowledge(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    delivery = await pop(queue, auto_ack=True)

    with pytest.raises(Invalid) as refused:
        await queue.ack(delivery)

    assert refused.value.field == "lease"


async def test_an_auto_ack_pop_leaves_out_what_was_acked_under_an_expired_lease(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(4))
    delivery = await pop(queue, batch=4, lease_seconds=10)
    await queue.ack(delivery, [delivery.messages[1], delivery.messages[3]])
    clock.advance(10)

    again = await pop(queue, batch=4, auto_ack=True)

    assert offsets(again) == [0, 2]
    assert await cursors(queue) == {"Default": 4}


# What is no longer there.


async def test_a_deleted_message_is_skipped(queue: Broker) -> None:
    receipts = await queue.push("orders", drafts(4))
    await queue.messages.delete(receipts[1].id)

    delivery = await pop(queue, batch=3)

    assert offsets(delivery) == [0, 2]


async def test_the_cursor_passes_a_message_that_was_deleted_before_it_was_delivered(
    queue: Broker,
) -> None:
    receipts = await queue.push("orders", drafts(3))
    await queue.messages.delete(receipts[1].id)

    settlement = await queue.ack(await pop(queue, batch=3))

    assert settlement.released
    assert await cursors(queue) == {"Default": 3}


async def test_a_partition_of_deleted_messages_only_gives_nothing_and_is_passed(
    queue: Broker,
) -> None:
    receipts = await queue.push("orders", drafts(2))
    for receipt in receipts:
        await queue.messages.delete(receipt.id)

    delivery = await queue.pop("orders", batch=2)

    assert delivery is None
    assert await cursors(queue) == {"Default": 2}


async def test_a_partition_of_deleted_messages_does_not_keep_a_pop_from_the_next(
    queue: Broker, clock: ManualClock
) -> None:
    (receipt,) = await queue.push("orders", drafts(1, "alice"))
    clock.advance(1)
    await queue.push("orders", drafts(1, "bob"))
    await queue.messages.delete(receipt.id)

    delivery = await pop(queue)

    assert partitions(delivery) == ["bob"]


async def test_a_message_that_is_deleted_under_a_lease_does_not_disturb_it(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    delivery = await pop(queue, batch=3)
    await queue.messages.delete(delivery.messages[1].id)

    settlement = await queue.ack(delivery)

    assert settlement.released
    assert await cursors(queue) == {"Default": 3}


async def test_a_message_that_is_deleted_under_a_lease_does_not_come_again(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(3))
    delivery = await pop(queue, batch=3, lease_seconds=10)
    await queue.messages.delete(delivery.messages[1].id)
    clock.advance(10)

    again = await pop(queue, batch=3)

    assert offsets(again) == [0, 2]


async def test_a_delivery_says_how_many_messages_were_removed_before_they_were_read(
    queue: Broker,
) -> None:
    await queue.push("orders", drafts(4))
    await queue.ack(await pop(queue))
    await queue.queues.clear("orders")
    await queue.push("orders", drafts(1, first=4))

    delivery = await pop(queue, batch=10)

    assert payloads(delivery) == [b"4"]
    assert delivery.truncated == 3


async def test_removed_messages_are_counted_for_a_group_that_had_read_nothing_yet(
    queue: Broker,
) -> None:
    await queue.queues.configure("orders")
    assert await queue.pop("orders", group="billing") is None
    await queue.push("orders", drafts(4))
    await queue.queues.clear("orders")
    await queue.push("orders", drafts(1, first=4))

    delivery = await pop(queue, group="billing", batch=10)

    assert payloads(delivery) == [b"4"]
    assert delivery.truncated == 4


async def test_removed_messages_are_counted_once(queue: Broker) -> None:
    await queue.push("orders", drafts(2))
    await queue.ack(await pop(queue))
    await queue.queues.clear("orders")
    await queue.push("orders", drafts(2, first=2))
    await queue.ack(await pop(queue))

    delivery = await pop(queue)

    assert delivery.truncated == 0


async def test_removed_messages_that_the_group_had_acked_are_not_counted(queue: Broker) -> None:
    await queue.push("orders", drafts(4))
    delivery = await pop(queue, batch=4)
    await queue.ack(delivery, delivery.messages[2:3])
    await queue.settle(delivery, [_retry(delivery.messages[0])])
    await queue.queues.clear("orders")
    await queue.push("orders", drafts(1, first=4))

    after = await pop(queue, batch=10)

    assert payloads(after) == [b"4"]
    assert after.truncated == 3


async def test_a_lease_whose_messages_were_removed_can_still_be_acknowledged(
    queue: Broker,
) -> None:
    await queue.push("orders", drafts(3))
    delivery = await pop(queue, batch=3)
    await queue.queues.clear("orders")
    await queue.push("orders", drafts(1, first=3))

    settlement = await queue.ack(delivery)

    assert settlement.released
    assert payloads(await pop(queue, batch=5)) == [b"3"]


@pytest.mark.parametrize("update", ["ack", "ack one", "extend", "give back", "fail", "give up"])
async def test_an_update_that_delivers_nothing_does_not_hide_what_was_removed(
    queue: Broker, clock: ManualClock, update: str
) -> None:
    await queue.push("orders", drafts(5))
    delivery = await pop(queue, batch=2)
    await queue.queues.clear("orders")
    (kept,) = await queue.push("orders", drafts(1, first=5))
    one = delivery.messages[0]
    failed = Verdict(one.partition_number, one.offset, "failed")
    updates: dict[str, Callable[[], Awaitable[object]]] = {
        "ack": lambda: queue.ack(delivery),
        "ack one": lambda: queue.ack(delivery, [one]),
        "extend": lambda: queue.extend(delivery, seconds=1),
        "give back": lambda: queue.settle(delivery, [_retry(one)]),
        "fail": lambda: queue.settle(delivery, [failed]),
        "give up": lambda: queue.messages.give_up(kept.id),
    }
    await updates[update]()
    await queue.push("orders", drafts(1, first=6))
    clock.advance(3600)

    after = await pop(queue, batch=5)

    read = {"ack": 2, "ack one": 1}.get(update, 0)
    assert after.truncated == 5 - read
    assert offsets(after) == ([6] if update == "give up" else [5, 6])


@pytest.mark.one_server("another one may not know yet what was removed")
async def test_what_fails_after_it_was_removed_becomes_no_dead_letter(queue: Broker) -> None:
    await queue.push("orders", drafts(2))
    delivery = await pop(queue, batch=2)
    await queue.queues.clear("orders")

    settlement = await queue.settle(
        delivery, [Verdict(m.partition_number, m.offset, "dead_letter") for m in delivery.messages]
    )

    assert (settlement.given_up, settlement.released) == ((), True)
    assert await letters(queue) == []


async def test_passing_over_deleted_messages_does_not_hide_what_was_removed(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    await queue.ack(await pop(queue))
    await queue.queues.clear("orders")
    (receipt,) = await queue.push("orders", drafts(1, first=3))
    await queue.messages.delete(receipt.id)
    assert await queue.pop("orders") is None
    await queue.push("orders", drafts(1, first=4))

    delivery = await pop(queue)

    assert (payloads(delivery), delivery.truncated) == ([b"4"], 2)


async def test_a_pop_under_way_when_its_queue_is_deleted_comes_to_its_end(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    assert await queue.pop("orders", partition="bob") is None
    under_way = asyncio.create_task(queue.pop("orders"))
    await asyncio.sleep(0)

    await queue.queues.delete("orders")

    assert offsets(await under_way) in ([], [0])
    assert await queue.pop("orders") is None


# How much at once.


async def test_a_delivery_ends_when_it_holds_enough_bytes(store: Store) -> None:
    async with make_broker(store, limits=Limits(pop_bytes=2 * MB)) as queue:
        await queue.push("orders", [Draft(bytes(MB)) for _ in range(5)])

        delivery = await pop(queue, batch=5)

        assert offsets(delivery) == [0, 1]


async def test_a_delivery_has_a_message_however_large_it_is(store: Store) -> None:
    async with make_broker(store, limits=Limits(pop_bytes=1)) as queue:
        await queue.push("orders", [Draft(bytes(MB)) for _ in range(2)])

        delivery = await pop(queue, batch=5)

        assert offsets(delivery) == [0]


async def test_a_delivery_from_several_partitions_ends_when_it_holds_enough_bytes(
    store: Store,
) -> None:
    async with make_broker(store, limits=Limits(pop_bytes=2 * MB)) as queue:
        for name in ("alice", "bob", "carol", "dave"):
            await queue.push("orders", [Draft(bytes(MB), name)])

        delivery = await pop(queue, batch=4, partitions=4)

        assert partitions(delivery) == ["alice", "bob"]


# The order of commits.


async def test_large_and_small_pushes_at_once_leave_no_message_behind_a_cursor(
    queue: Broker,
) -> None:
    """A large push that begins early and commits late must not land where a cursor has been."""
    pushes = [
        queue.push("orders", drafts(400 if number % 5 == 0 else 1, first=1000 * number))
        for number in range(40)
    ]
    delivered: list[int] = []

    async def consume() -> None:
        while len(delivered) < 8 * 400 + 32:
            delivery = await pop(queue, batch=90, wait=30)
            delivered.extend(offsets(delivery))
            await queue.ack(delivery)

    receipts, _ = await asyncio.gather(asyncio.gather(*pushes), consume())

    assert delivered == list(range(8 * 400 + 32))
    assert sorted(r.offset for some in receipts for r in some) == delivered
    assert await backlogs(queue) == {"Default": 0}


async def test_a_push_has_consecutive_offsets_in_its_partition_whoever_else_pushes(
    queue: Broker,
) -> None:
    pushes = [queue.push("orders", drafts(1 + number % 30)) for number in range(30)]

    receipts = await asyncio.gather(*pushes)

    for some in receipts:
        first = some[0].offset
        assert [r.offset for r in some] == list(range(first, first + len(some)))


def _retry(message: Message) -> Verdict:
    return Verdict(message.partition_number, message.offset, "retry")
