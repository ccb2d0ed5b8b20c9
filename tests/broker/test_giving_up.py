"""Moving a message to the dead letters by hand."""

from uuid import UUID

import pytest

from skep import Broker
from skep.core.admin.give_up import BY_HAND
from skep.errors import Conflict, GroupNotFound, MessageNotFound
from skep.model.address import message_id
from skep.testing.clock import ManualClock
from tests.support.broker_builders import backlogs, drafts, letters, pop, pop_all


async def push(queue: Broker, n: int) -> list[UUID]:
    """Messages that a group has before it."""
    receipts = await queue.push("orders", drafts(n))
    await queue.pop("orders", partition="none")
    return [receipt.id for receipt in receipts]


async def test_a_message_that_was_given_up_is_a_dead_letter_and_not_delivered(
    queue: Broker,
) -> None:
    ids = await push(queue, 3)

    groups = await queue.messages.give_up(ids[1], error="known to be broken")

    (letter,) = await letters(queue)
    assert groups == ["__QUEUE_MODE__"]
    assert (letter.payload, letter.error) == (b"1", "known to be broken")
    assert await pop_all(queue, batch=9) == [b"0", b"2"]
    assert await backlogs(queue) == {"Default": 0}


async def test_the_first_message_can_be_given_up(queue: Broker) -> None:
    ids = await push(queue, 2)

    await queue.messages.give_up(ids[0])

    assert (await letters(queue))[0].error == BY_HAND
    assert await pop_all(queue) == [b"1"]


async def test_it_is_given_up_for_every_group_that_has_not_read_it(queue: Broker) -> None:
    ids = await push(queue, 1)
    await queue.pop("orders", group="billing", partition="none")
    await pop(queue, group="stock", auto_ack=True)

    groups = await queue.messages.give_up(ids[0])

    assert sorted(groups) == ["__QUEUE_MODE__", "billing"]
    assert len(await letters(queue)) == 2


async def test_it_is_given_up_for_one_group_only_if_one_is_named(queue: Broker) -> None:
    ids = await push(queue, 1)
    await queue.pop("orders", group="billing", partition="none")

    assert await queue.messages.give_up(ids[0], group="billing") == ["billing"]

    assert await queue.pop("orders", group="billing") is None
    assert await queue.pop("orders") is not None


async def test_a_message_that_a_consumer_holds_is_not_taken_from_it(queue: Broker) -> None:
    ids = await push(queue, 2)
    delivery = await pop(queue, batch=1)

    with pytest.raises(Conflict, match="holds the message"):
        await queue.messages.give_up(ids[0])
    await queue.messages.give_up(ids[1])
    await queue.ack(delivery)

    assert [letter.payload for letter in await letters(queue)] == [b"1"]
    assert await queue.pop("orders") is None


async def test_a_message_whose_lease_has_run_out_can_be_given_up(
    queue: Broker, clock: ManualClock
) -> None:
    ids = await push(queue, 2)
    late = await pop(queue, batch=2)
    clock.advance(301)

    await queue.messages.give_up(ids[0])

    with pytest.raises(Conflict):
        await queue.ack(late)
    assert await pop_all(queue, batch=9) == [b"1"]


async def test_a_run_that_waits_for_a_retry_loses_its_message_and_keeps_the_rest(
    queue: Broker, clock: ManualClock
) -> None:
    ids = await push(queue, 2)
    await queue.fail(await pop(queue, batch=2))

    await queue.messages.give_up(ids[1])
    clock.advance(10)

    delivery = await pop(queue, batch=9)
    assert [(m.payload, m.attempt) for m in delivery.messages] == [(b"0", 2)]


async def test_a_run_of_which_nothing_is_left_does_not_delay_what_follows(queue: Broker) -> None:
    ids = await push(queue, 2)
    await queue.fail(await pop(queue, batch=1))

    await queue.messages.give_up(ids[0])

    delivery = await pop(queue, batch=9)
    assert [(m.payload, m.attempt) for m in delivery.messages] == [(b"1", 1)]


async def test_a_message_that_everybody_has_done_cannot_be_given_up(queue: Broker) -> None:
    ids = await push(queue, 1)
    await pop(queue, auto_ack=True)

    with pytest.raises(Conflict, match="it is completed"):
        await queue.messages.give_up(ids[0])

    assert await letters(queue) == []


async def test_a_message_that_nobody_has_before_him_cannot_be_given_up(queue: Broker) -> None:
    (receipt,) = await queue.push("orders", drafts(1))

    with pytest.raises(Conflict, match="not popped yet"):
        await queue.messages.give_up(receipt.id)


async def test_what_does_not_exist_cannot_be_given_up(queue: Broker) -> None:
    ids = await push(queue, 1)

    with pytest.raises(GroupNotFound):
        await queue.messages.give_up(ids[0], group="unknown")
    with pytest.raises(MessageNotFound):
        await queue.messages.give_up(message_id(999, 0))
