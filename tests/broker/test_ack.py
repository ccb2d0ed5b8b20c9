"""What an acknowledgement does, and what it does when it comes too late."""

import asyncio
from uuid import uuid4

import pytest

from skep import Broker, Delivery, Settlement
from skep.errors import Invalid, LeaseLost
from skep.testing.clock import ManualClock
from tests.support.broker_builders import (
    Settled,
    backlogs,
    cursors,
    dead,
    drafts,
    lease_of,
    letters,
    of,
    offsets,
    payloads,
    pop,
)

DONE = Settled(completed=1, released=True)


async def ack(queue: Broker, delivery: Delivery, *which: int) -> Settlement:
    return await queue.ack(delivery, [delivery.messages[index] for index in which])


async def test_acking_a_delivery_moves_the_cursor_to_its_end(queue: Broker) -> None:
    await queue.push("orders", drafts(4))
    delivery = await pop(queue, batch=3)

    settlement = await queue.ack(delivery)

    assert settlement == Settled(completed=3, released=True)
    assert await cursors(queue) == {"Default": 3}


async def test_a_lease_can_be_acked_by_its_id_alone(queue: Broker) -> None:
    await queue.push("orders", drafts(2))
    delivery = await pop(queue, batch=2)

    settlement = await queue.ack(lease_of(delivery))

    assert settlement == Settled(completed=2, released=True)


async def test_acks_in_order_move_the_cursor_message_by_message(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    delivery = await pop(queue, batch=3)

    reached = []
    for index in range(3):
        await ack(queue, delivery, index)
        reached.append((await cursors(queue))["Default"])

    assert reached == [1, 2, 3]


async def test_an_ack_out_of_order_leaves_the_cursor_at_the_first_open_message(
    queue: Broker,
) -> None:
    await queue.push("orders", drafts(5))
    delivery = await pop(queue, batch=5)

    settlement = await ack(queue, delivery, 4, 2)

    assert settlement == Settled(completed=2)
    assert await cursors(queue) == {"Default": 0}
    assert await backlogs(queue) == {"Default": 3}


async def test_the_cursor_jumps_over_what_was_acked_when_the_gap_closes(queue: Broker) -> None:
    await queue.push("orders", drafts(5))
    delivery = await pop(queue, batch=5)
    await ack(queue, delivery, 1, 2, 4)

    await ack(queue, delivery, 0)

    assert await cursors(queue) == {"Default": 3}
    assert await backlogs(queue) == {"Default": 1}


async def test_what_was_acked_out_of_order_is_never_delivered_again(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(6))
    first = await pop(queue, batch=6, lease_seconds=10)
    await ack(queue, first, 5, 1)
    clock.advance(10)
    second = await pop(queue, batch=6, lease_seconds=10)
    await queue.ack(second, [m for m in second.messages if m.offset == 3])
    clock.advance(10)

    third = await pop(queue, batch=6)

    assert offsets(second) == [0, 2, 3, 4]
    assert offsets(third) == [0, 2, 4]
    assert await queue.ack(third) == Settled(completed=3, released=True)
    assert await cursors(queue) == {"Default": 6}


async def test_the_rest_of_a_delivery_can_be_acked_without_naming_it(queue: Broker) -> None:
    await queue.push("orders", drafts(4))
    delivery = await pop(queue, batch=4)
    await ack(queue, delivery, 2)

    settlement = await queue.ack(delivery)

    assert settlement == Settled(completed=3, released=True)


async def test_the_same_ack_twice_counts_once(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    delivery = await pop(queue, batch=3)
    await ack(queue, delivery, 0, 2)

    again = await ack(queue, delivery, 0, 2)

    assert again == Settled(completed=0)
    assert await cursors(queue) == {"Default": 1}
    assert await backlogs(queue) == {"Default": 1}


async def test_acks_of_one_delivery_at_the_same_time_all_count(queue: Broker) -> None:
    await queue.push("orders", drafts(200))
    delivery = await pop(queue, batch=200)

    settlements = await asyncio.gather(
        *(queue.ack(delivery, [message]) for message in delivery.messages)
    )

    assert sum(settlement.completed for settlement in settlements) == 200
    assert await cursors(queue) == {"Default": 200}


async def test_acks_and_failures_of_one_delivery_at_the_same_time_all_count(
    queue: Broker,
) -> None:
    await queue.push("orders", drafts(40))
    delivery = await pop(queue, batch=40)

    await asyncio.gather(
        *(
            queue.fail(delivery, [message])
            if message.offset % 4
            else queue.ack(delivery, [message])
            for message in delivery.messages
        )
    )

    assert await cursors(queue) == {"Default": 40}
    assert len(await letters(queue)) == 30


async def test_an_ack_and_an_extension_at_the_same_time_both_count(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(2))
    delivery = await pop(queue, batch=2, lease_seconds=10)

    await asyncio.gather(ack(queue, delivery, 0), queue.extend(delivery, 60))

    clock.advance(59)
    assert await ack(queue, delivery, 1) == DONE


async def test_an_ack_that_is_refused_disturbs_none_at_the_same_time(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    delivery = await pop(queue, batch=3)

    results = await asyncio.gather(
        ack(queue, delivery, 0),
        ack(queue, delivery, 1, 1),
        ack(queue, delivery, 2),
        return_exceptions=True,
    )

    assert [type(result) for result in results] == [Settlement, Invalid, Settlement]
    assert await backlogs(queue) == {"Default": 1}


# Too late.


async def test_a_late_ack_is_refused_and_changes_nothing(queue: Broker, clock: ManualClock) -> None:
    await queue.push("orders", drafts(3))
    late = await pop(queue, batch=3, lease_seconds=10)
    clock.advance(10)

    with pytest.raises(LeaseLost) as lost:
        await queue.ack(late)

    assert lost.value.lease_id == late.lease_id
    assert await cursors(queue) == {"Default": 0}
    assert offsets(await pop(queue, batch=3)) == [0, 1, 2]


async def test_a_late_ack_changes_nothing_for_who_took_over(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(3))
    late = await pop(queue, batch=3, lease_seconds=10)
    clock.advance(10)
    current = await pop(queue, batch=3)

    with pytest.raises(LeaseLost):
        await ack(queue, late, 0, 1)

    assert await backlogs(queue) == {"Default": 3}
    assert await queue.ack(current) == Settled(completed=3, released=True)


async def test_a_late_failure_is_refused_and_changes_nothing(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure("orders", retry_limit=0)
    await queue.push("orders", drafts(1))
    late = await pop(queue, lease_seconds=10)
    clock.advance(10)

    with pytest.raises(LeaseLost):
        await queue.fail(late, error="too slow")

    assert await letters(queue) == []
    assert offsets(await pop(queue)) == [0]


async def test_an_ack_whose_lease_expires_before_its_commit_is_refused_and_changes_nothing(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(3))
    delivery = await pop(queue, batch=3, lease_seconds=10)
    acks = [asyncio.create_task(ack(queue, delivery, index)) for index in range(3)]
    await asyncio.sleep(0)

    clock.advance(10)  # they are on their way, and the store judges by its own clock

    results = await asyncio.gather(*acks, return_exceptions=True)
    assert [type(result) for result in results] == [LeaseLost] * 3
    assert await backlogs(queue) == {"Default": 3}


async def test_a_lease_that_is_over_cannot_be_acked_again(queue: Broker) -> None:
    await queue.push("orders", drafts(2))
    delivery = await pop(queue)
    await queue.ack(delivery)
    following = await pop(queue)

    with pytest.raises(LeaseLost):
        await queue.ack(delivery)

    assert await queue.ack(following) == DONE


async def test_a_lease_that_never_was_cannot_be_acked(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    delivery = await pop(queue)

    with pytest.raises(LeaseLost):
        await queue.ack(str(uuid4()), delivery.messages)

    assert await backlogs(queue) == {"Default": 1}


async def test_messages_cannot_be_acked_with_the_lease_of_another(queue: Broker) -> None:
    await queue.push("orders", [*drafts(1, "alice"), *drafts(1, "bob")])
    mine, another = await pop(queue), await pop(queue)

    with pytest.raises(LeaseLost):
        await queue.ack(mine, another.messages)

    assert await backlogs(queue) == {"alice": 1, "bob": 1}
    assert await queue.ack(another) == DONE


async def test_an_ack_of_which_one_part_is_refused_changes_nothing(queue: Broker) -> None:
    await queue.push("orders", [*drafts(2, "alice"), *drafts(1, "bob")])
    mine = await pop(queue, partition="alice", batch=2)
    another = await pop(queue, partition="bob")

    with pytest.raises(LeaseLost):
        await queue.ack(mine, [*mine.messages, *another.messages])

    assert await backlogs(queue) == {"alice": 2, "bob": 1}
    assert await queue.ack(mine) == Settled(completed=2, released=True)


async def test_an_ack_of_one_group_changes_nothing_for_another(queue: Broker) -> None:
    await queue.push("orders", drafts(2))
    billing = await pop(queue, group="billing", batch=2)
    await pop(queue, group="mail", batch=2)

    await queue.ack(billing)

    assert await backlogs(queue, group="billing") == {"Default": 0}
    assert await backlogs(queue, group="mail") == {"Default": 2}


async def test_messages_that_were_not_delivered_cannot_be_acked(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    delivery = await pop(queue, batch=2)
    page = await queue.messages.list("orders", partition="Default")
    beyond = [message for message in page.messages if message.offset == 2]

    with pytest.raises(Invalid) as refused:
        await queue.ack(delivery, [*delivery.messages, *beyond])

    assert refused.value.field == "verdicts[2].offset"
    assert await backlogs(queue) == {"Default": 3}


async def test_a_message_cannot_be_settled_twice_in_one_call(queue: Broker) -> None:
    await queue.push("orders", drafts(2))
    delivery = await pop(queue, batch=2)

    with pytest.raises(Invalid) as refused:
        await ack(queue, delivery, 0, 0)

    assert refused.value.field == "verdicts[1].offset"
    assert await backlogs(queue) == {"Default": 2}


# Partial failure.


async def test_if_some_of_a_batch_fail_these_are_dead_letters_and_the_cursor_passes(
    queue: Broker,
) -> None:
    await queue.push("orders", drafts(4))
    delivery = await pop(queue, batch=4)
    await ack(queue, delivery, 0, 2)

    settlement = await queue.fail(
        delivery, [delivery.messages[1], delivery.messages[3]], error="no such customer"
    )

    assert settlement == Settled(dead_letters=2, released=True)
    assert await cursors(queue) == {"Default": 4}
    assert [(letter.payload, letter.error) for letter in await letters(queue)] == [
        (b"1", "no such customer"),
        (b"3", "no such customer"),
    ]


async def test_a_failure_after_an_ack_is_a_dead_letter_at_once(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    delivery = await pop(queue, batch=3)
    await ack(queue, delivery, 0)

    settlement = await queue.fail(delivery, delivery.messages[1:2])

    assert settlement == Settled(dead_letters=1)
    assert await dead(queue) == [b"1"]
    assert await cursors(queue) == {"Default": 2}


async def test_the_rest_of_a_batch_that_failed_in_part_is_still_leased(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    delivery = await pop(queue, batch=3)
    await ack(queue, delivery, 0)
    await queue.fail(delivery, delivery.messages[1:2])

    meanwhile = await queue.pop("orders", batch=3)

    assert meanwhile is None
    assert await ack(queue, delivery, 2) == DONE


async def test_a_dead_letter_of_one_group_is_still_delivered_to_the_others(
    queue: Broker,
) -> None:
    await queue.push("orders", drafts(2))
    billing = await pop(queue, group="billing", batch=2)
    await ack(queue, billing, 0)
    await queue.fail(billing, billing.messages[1:])

    mail = await pop(queue, group="mail", batch=2)

    assert [letter.group for letter in await letters(queue)] == ["billing"]
    assert payloads(mail) == [b"0", b"1"]


async def test_each_partition_of_a_delivery_is_judged_by_itself(queue: Broker) -> None:
    await queue.push("orders", [*drafts(2, "alice"), *drafts(2, "bob")])
    delivery = await pop(queue, batch=4, partitions=2)
    await queue.ack(delivery, [*of(delivery, "alice")[:1]])

    settlement = await queue.fail(delivery, [*of(delivery, "alice")[1:], *of(delivery, "bob")])

    assert settlement.dead_letters == 1
    assert settlement.retry_at is not None
    assert settlement.released
    assert await dead(queue) == [b"1"]
    assert await cursors(queue) == {"alice": 2, "bob": 0}
