"""One transaction id in one partition is one message, whoever pushes it and however often."""

import asyncio
from collections.abc import Sequence

import pytest

from skep import Broker, Draft, Receipt
from skep.store.protocol import Store
from skep.testing.clock import ManualClock
from tests.support.broker_builders import make_broker, pop, pop_all


def with_ids(*ids: str | None, partition: str = "alice", payload: bytes = b"") -> list[Draft]:
    """Messages with these ids, whose payload is the id again unless one is given."""
    return [Draft(payload or str(chosen).encode(), partition, chosen) for chosen in ids]


def shape(receipts: Sequence[Receipt]) -> list[tuple[int, bool]]:
    return [(receipt.offset, receipt.duplicate) for receipt in receipts]


async def test_an_id_twice_in_a_push_is_one_message(queue: Broker) -> None:
    receipts = await queue.push("orders", with_ids("a", "b", "a"))

    assert shape(receipts) == [(0, False), (1, False), (0, True)]
    assert receipts[2].id == receipts[0].id
    assert await pop_all(queue, batch=10) == [b"a", b"b"]


async def test_an_id_in_a_second_push_is_answered_with_the_first_message(queue: Broker) -> None:
    (first,) = await queue.push("orders", with_ids("a", payload=b"first"))

    (second,) = await queue.push("orders", with_ids("a", payload=b"second"))

    assert (first.duplicate, second.duplicate) == (False, True)
    assert (second.id, second.transaction_id) == (first.id, "a")
    assert await pop_all(queue, batch=10) == [b"first"]


async def test_new_messages_between_duplicates_get_dense_offsets(queue: Broker) -> None:
    await queue.push("orders", with_ids("a", "b"))

    receipts = await queue.push("orders", with_ids("c", "a", "d", "b", None))

    assert shape(receipts) == [(2, False), (0, True), (3, False), (1, True), (4, False)]


@pytest.mark.parametrize("partitions_are_known", [False, True])
async def test_of_pushes_at_the_same_time_one_wins_and_everybody_gets_its_id(
    queue: Broker, partitions_are_known: bool
) -> None:
    if partitions_are_known:
        await queue.push("orders", with_ids("before"))
    pushes = [queue.push("orders", with_ids("a", payload=b"%d" % n)) for n in range(20)]

    receipts = [receipt for (receipt,) in await asyncio.gather(*pushes)]

    winners = [n for n, receipt in enumerate(receipts) if not receipt.duplicate]
    assert len(winners) == 1
    assert {receipt.id for receipt in receipts} == {receipts[winners[0]].id}
    found = await queue.messages.get(receipts[0].id)
    assert found.payload == b"%d" % winners[0]
    assert (await queue.queues.stats("orders")).pushed == 1 + partitions_are_known


async def test_the_same_id_in_another_partition_is_another_message(queue: Broker) -> None:
    (first,) = await queue.push("orders", with_ids("a"))

    (second,) = await queue.push("orders", with_ids("a", partition="bob"))

    assert second.duplicate is False
    assert second.id != first.id


async def test_the_same_id_in_two_partitions_of_one_push_is_two_messages(queue: Broker) -> None:
    receipts = await queue.push("orders", [*with_ids("a"), *with_ids("a", partition="bob")])

    assert shape(receipts) == [(0, False), (0, False)]


async def test_the_same_id_in_another_queue_is_another_message(queue: Broker) -> None:
    await queue.push("orders", with_ids("a"))

    (receipt,) = await queue.push("invoices", with_ids("a"))

    assert receipt.duplicate is False


@pytest.mark.parametrize(
    ("one", "other"),
    [("a", "A"), ("a", "a "), ("é", "e\u0301"), ("a", "a\x00"), ("1", "01")],
    ids=["case", "blank", "normal form", "nul", "digits"],
)
async def test_ids_that_only_look_alike_are_two_messages(
    queue: Broker, one: str, other: str
) -> None:
    receipts = await queue.push("orders", with_ids(one, other))

    assert shape(receipts) == [(0, False), (1, False)]


@pytest.mark.parametrize("chosen", ["x" * 255, "\N{HONEYBEE}" * 255, "\x00", "\n", "'; --"])
async def test_any_text_of_255_characters_can_be_an_id(queue: Broker, chosen: str) -> None:
    await queue.push("orders", with_ids(chosen))

    (again,) = await queue.push("orders", with_ids(chosen))

    assert again.duplicate is True
    assert (await pop(queue)).messages[0].transaction_id == chosen


async def test_messages_without_an_id_are_never_duplicates(queue: Broker) -> None:
    same = [Draft(b"same"), Draft(b"same")]
    await queue.push("orders", same)

    receipts = await queue.push("orders", same)

    assert shape(receipts) == [(2, False), (3, False)]


async def test_an_id_that_nobody_chose_is_the_id_of_the_message(queue: Broker) -> None:
    (receipt,) = await queue.push("orders", [Draft(b"a")])

    (message,) = (await pop(queue)).messages
    assert receipt.transaction_id == str(receipt.id)
    assert message.transaction_id == str(message.id) == str(receipt.id)


async def test_a_derived_id_is_taken_like_a_chosen_one(queue: Broker) -> None:
    (first,) = await queue.push("orders", [Draft(b"a")])

    (again,) = await queue.push("orders", [Draft(b"b", transaction_id=first.transaction_id)])

    assert (again.duplicate, again.id) == (True, first.id)


async def test_an_id_stays_taken_after_its_message_was_consumed(queue: Broker) -> None:
    await queue.push("orders", with_ids("a"))
    await queue.ack(await pop(queue))

    (again,) = await queue.push("orders", with_ids("a"))

    assert again.duplicate is True
    assert await queue.pop("orders") is None


async def test_an_id_is_free_again_when_retention_removed_its_message(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure("orders", retention_enabled=True, retention_seconds=60)
    await queue.push("orders", with_ids("a"))
    clock.advance(61)
    assert await queue.sweep() == 1

    (again,) = await queue.push("orders", with_ids("a", payload=b"again"))

    assert shape([again]) == [(1, False)]
    assert await pop_all(queue) == [b"again"]


async def test_an_id_is_free_again_when_its_message_was_deleted(queue: Broker) -> None:
    (first,) = await queue.push("orders", with_ids("a"))
    await queue.messages.delete(first.id)

    (again,) = await queue.push("orders", with_ids("a", payload=b"again"))

    assert shape([again]) == [(1, False)]


async def test_an_id_is_free_again_when_the_queue_was_cleared(queue: Broker) -> None:
    await queue.push("orders", with_ids("a"))
    await queue.queues.clear("orders")

    (again,) = await queue.push("orders", with_ids("a"))

    assert shape([again]) == [(1, False)]


async def test_an_id_is_known_to_the_next_process(store: Store) -> None:
    before = await make_broker(store).__aenter__()
    (first,) = await before.push("orders", with_ids("a"))

    async with make_broker(store) as after:
        (again,) = await after.push("orders", with_ids("a"))

    assert again.duplicate is True
    assert again.id == first.id


async def test_a_push_of_duplicates_only_moves_nothing(queue: Broker, clock: ManualClock) -> None:
    await queue.push("orders", with_ids("a", "b"))
    await queue.ack(await pop(queue, batch=2))
    before = list(await queue.queues.partitions("orders")), await queue.queues.stats("orders")
    clock.advance(60)

    receipts = await queue.push("orders", with_ids("b", "a"))

    assert shape(receipts) == [(1, True), (0, True)]
    after = list(await queue.queues.partitions("orders")), await queue.queues.stats("orders")
    assert after == before
    assert await queue.pop("orders") is None
