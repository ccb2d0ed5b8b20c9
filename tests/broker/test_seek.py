"""Seek: the only way in which a cursor goes back, and a way to skip."""

import asyncio

import pytest

from skep import Broker, Settlement
from skep.errors import GroupNotFound, Invalid, LeaseLost, PartitionNotFound
from skep.model.name import QUEUE_MODE
from skep.testing.clock import ManualClock
from tests.support.broker_builders import (
    backlogs,
    cursors,
    drafts,
    long_poll,
    moment,
    offsets,
    payloads,
    places,
    pop,
    pop_all,
)


async def test_after_a_seek_to_the_beginning_everything_comes_again(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    await pop_all(queue)

    moved = await queue.groups.seek("orders", QUEUE_MODE, "beginning")

    assert moved == 1
    delivery = await pop(queue, batch=10)
    assert [(m.offset, m.attempt) for m in delivery.messages] == [(0, 1), (1, 1), (2, 1)]


async def test_the_beginning_is_the_first_message_that_is_still_kept(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    await pop_all(queue)
    await queue.queues.clear("orders")
    await queue.push("orders", drafts(2, first=3))
    await pop_all(queue)

    await queue.groups.seek("orders", QUEUE_MODE, "beginning")

    delivery = await pop(queue, batch=10)
    assert payloads(delivery) == [b"3", b"4"]
    assert delivery.truncated == 0


async def test_after_a_seek_to_the_end_only_what_is_pushed_later_comes(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    await queue.ack(await pop(queue))

    await queue.groups.seek("orders", QUEUE_MODE, "end")

    assert await backlogs(queue) == {"Default": 0}
    assert await queue.pop("orders") is None
    await queue.push("orders", drafts(1, first=3))
    assert payloads(await pop(queue, batch=10)) == [b"3"]


@pytest.mark.parametrize("offset", [0, 1, 4])
async def test_a_seek_to_an_offset_goes_back_and_forth(queue: Broker, offset: int) -> None:
    await queue.push("orders", drafts(5))
    await queue.ack(await pop(queue, batch=2))

    await queue.groups.seek("orders", QUEUE_MODE, offset)

    assert await cursors(queue) == {"Default": offset}
    assert offsets(await pop(queue, batch=10)) == list(range(offset, 5))


async def test_a_seek_beyond_the_end_is_refused_and_moves_nothing(queue: Broker) -> None:
    await queue.push("orders", [*drafts(5, "alice"), *drafts(3, "bob")])
    await pop_all(queue)

    with pytest.raises(Invalid) as refused:
        await queue.groups.seek("orders", QUEUE_MODE, 4)

    assert refused.value.field == "to"
    assert await cursors(queue) == {"alice": 5, "bob": 3}


async def test_a_seek_to_a_timestamp_goes_to_the_first_message_pushed_then_or_later(
    queue: Broker, clock: ManualClock
) -> None:
    for number in range(4):
        await queue.push("orders", drafts(1, first=number))
        clock.advance(10)
    await pop_all(queue)

    await queue.groups.seek("orders", QUEUE_MODE, moment(clock, -20))

    assert offsets(await pop(queue, batch=10)) == [2, 3]


async def test_a_seek_to_a_time_after_everything_is_the_end(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(3))
    await pop(queue, group="mail")

    await queue.groups.seek("orders", "mail", moment(clock, 1))

    assert await cursors(queue, group="mail") == {"Default": 3}


async def test_a_seek_ends_the_leases_of_the_group(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    delivery = await pop(queue, batch=3)

    await queue.groups.seek("orders", QUEUE_MODE, 1)

    with pytest.raises(LeaseLost):
        await queue.ack(delivery)
    with pytest.raises(LeaseLost):
        await queue.extend(delivery, 60)
    assert offsets(await pop(queue, batch=3)) == [1, 2]


async def test_a_seek_forgets_what_was_acked_beyond_the_cursor(queue: Broker) -> None:
    await queue.push("orders", drafts(4))
    delivery = await pop(queue, batch=4)
    await queue.ack(delivery, delivery.messages[2:])

    await queue.groups.seek("orders", QUEUE_MODE, "beginning")

    assert await backlogs(queue) == {"Default": 4}
    assert offsets(await pop(queue, batch=4)) == [0, 1, 2, 3]


async def test_a_seek_forgets_a_retry_that_waits(queue: Broker) -> None:
    await queue.push("orders", drafts(2))
    await queue.fail(await pop(queue, batch=2))

    await queue.groups.seek("orders", QUEUE_MODE, "beginning")

    delivery = await pop(queue, batch=2)
    assert [(m.offset, m.attempt) for m in delivery.messages] == [(0, 1), (1, 1)]


async def test_a_seek_forgets_the_end_of_a_run(queue: Broker, clock: ManualClock) -> None:
    await queue.push("orders", drafts(2))
    await pop(queue, batch=2)
    await queue.push("orders", drafts(2, first=2))

    await queue.groups.seek("orders", QUEUE_MODE, "beginning")

    assert offsets(await pop(queue, batch=10)) == [0, 1, 2, 3]


async def test_a_seek_moves_one_partition_if_one_is_named(queue: Broker) -> None:
    await queue.push("orders", [*drafts(2, "alice"), *drafts(2, "bob")])
    await pop_all(queue)

    moved = await queue.groups.seek("orders", QUEUE_MODE, "beginning", partition="bob")

    assert moved == 1
    assert await cursors(queue) == {"alice": 2, "bob": 0}


async def test_a_seek_moves_all_partitions_if_none_is_named(queue: Broker) -> None:
    await queue.push("orders", [*drafts(2, "alice"), *drafts(2, "bob")])
    await pop_all(queue)

    moved = await queue.groups.seek("orders", QUEUE_MODE, 1)

    assert moved == 2
    delivery = await pop(queue, batch=10, partitions=2)
    assert sorted(places(delivery)) == [("alice", 1), ("bob", 1)]


async def test_a_seek_moves_more_partitions_than_fit_in_one_change(queue: Broker) -> None:
    names = [f"p{number}" for number in range(1200)]
    await queue.push("orders", [draft for name in names for draft in drafts(1, name)])
    assert await queue.pop("orders", group="mail", partition="nobody") is None

    moved = await queue.groups.seek("orders", "mail", "end")

    assert moved == 1200
    assert set((await cursors(queue, group="mail")).values()) == {1}


async def test_a_seek_moves_no_other_group(queue: Broker) -> None:
    await queue.push("orders", drafts(2))
    await pop_all(queue, group="billing")
    await pop_all(queue, group="mail")

    await queue.groups.seek("orders", "mail", "beginning")

    assert await cursors(queue, group="billing") == {"Default": 2}
    assert await cursors(queue, group="mail") == {"Default": 0}


async def test_a_pop_at_the_same_time_does_not_undo_a_seek(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    assert await queue.pop("orders", partition="bob") is None

    _, delivery = await asyncio.gather(
        queue.groups.seek("orders", QUEUE_MODE, 2), queue.pop("orders", batch=10)
    )

    assert offsets(delivery) in ([2], [0, 1, 2]), "the pop is before or after the seek"
    assert await cursors(queue) == {"Default": 2}


async def test_an_ack_at_the_same_time_does_not_undo_a_seek(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    delivery = await pop(queue, batch=3)

    _, ack = await asyncio.gather(
        queue.groups.seek("orders", QUEUE_MODE, "beginning"),
        queue.ack(delivery),
        return_exceptions=True,
    )

    assert isinstance(ack, LeaseLost | Settlement), "the ack is after or before the seek"
    assert await cursors(queue) == {"Default": 0}


async def test_a_seek_wakes_who_waits(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    await pop_all(queue)
    waiting = await long_poll(queue)

    await queue.groups.seek("orders", QUEUE_MODE, "beginning")

    assert offsets(await waiting) == [0]


async def test_a_group_that_never_popped_cannot_be_moved(queue: Broker) -> None:
    await queue.push("orders", drafts(1))

    with pytest.raises(GroupNotFound):
        await queue.groups.seek("orders", "mail", "end")

    assert await queue.groups.list("orders") == []


async def test_a_partition_that_does_not_exist_cannot_be_moved(queue: Broker) -> None:
    await queue.push("orders", drafts(1, "alice"))
    await pop(queue)

    with pytest.raises(PartitionNotFound):
        await queue.groups.seek("orders", QUEUE_MODE, "end", partition="bob")

    assert await cursors(queue) == {"alice": 0}
