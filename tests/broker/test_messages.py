"""Looking messages up without a lease, and taking one out."""

import asyncio
from uuid import uuid4

import pytest

from skep import Broker, Draft, Limits, Message
from skep.errors import Invalid, MessageNotFound, PartitionNotFound, QueueNotFound
from skep.model.address import message_id
from skep.store.protocol import Store
from skep.testing.clock import ManualClock
from tests.support.broker_builders import (
    backlogs,
    cursors,
    drafts,
    make_broker,
    moment,
    offsets,
    payloads,
    pop,
    pop_all,
)


def texts(messages: list[Message]) -> list[bytes]:
    return [message.payload for message in messages]


async def pages(
    queue: Broker, *, limit: int, partition: str | None = None, name: str = "orders"
) -> list[list[bytes]]:
    """Every page of a listing."""
    found: list[list[bytes]] = []
    before: str | None = None
    while True:
        page = await queue.messages.list(name, partition=partition, before=before, limit=limit)
        found.append(texts(page.messages))
        if page.next is None:
            return found
        before = page.next


# One.


async def test_a_message_is_got_by_its_id(queue: Broker, clock: ManualClock) -> None:
    pushed_at = moment(clock)
    receipts = await queue.push("orders", [Draft(b"a", "alice", "t-1"), Draft(b"b", "bob")])
    clock.advance(60)

    found = await queue.messages.get(receipts[0].id)

    assert (found.queue, found.partition, found.offset) == ("orders", "alice", 0)
    assert (found.payload, found.transaction_id, found.attempt) == (b"a", "t-1", 0)
    assert found.created_at == pushed_at
    assert (await queue.messages.get(receipts[1].id)).payload == b"b"


async def test_a_message_is_got_whether_or_not_it_is_leased_or_done(queue: Broker) -> None:
    (receipt,) = await queue.push("orders", drafts(1))
    delivery = await pop(queue)

    leased = await queue.messages.get(receipt.id)
    await queue.ack(delivery)

    assert await queue.messages.get(receipt.id) == leased


async def test_an_id_of_no_message_is_not_found(queue: Broker) -> None:
    (receipt,) = await queue.push("orders", drafts(1))
    next_one = message_id(receipt.partition_number, 1)
    elsewhere = message_id(receipt.partition_number + 1000, 0)

    for missing in (next_one, elsewhere):
        with pytest.raises(MessageNotFound, match=str(missing)):
            await queue.messages.get(missing)
        with pytest.raises(MessageNotFound, match=str(missing)):
            await queue.messages.delete(missing)


async def test_a_uuid_that_is_no_message_id_is_refused(queue: Broker) -> None:
    with pytest.raises(Invalid, match="message_id"):
        await queue.messages.get(uuid4())


async def test_a_message_is_found_by_the_id_its_producer_chose(queue: Broker) -> None:
    await queue.push("orders", [Draft(b"a", "alice", "t-1"), Draft(b"b", "alice", "t-2")])

    found = await queue.messages.find("orders", "alice", "t-2")

    assert found is not None
    assert (found.payload, found.offset) == (b"b", 1)


async def test_a_message_is_found_by_the_id_that_was_derived(queue: Broker) -> None:
    receipts = await queue.push("orders", drafts(3, "alice"))

    found = await queue.messages.find("orders", "alice", receipts[1].transaction_id)

    assert found is not None
    assert found.id == receipts[1].id


async def test_a_message_is_found_in_its_own_partition_only(queue: Broker) -> None:
    _, bob = await queue.push("orders", [Draft(b"a", "alice", "t-1"), Draft(b"b", "bob")])

    assert await queue.messages.find("orders", "bob", "t-1") is None
    assert await queue.messages.find("orders", "alice", str(bob.id)) is None
    assert await queue.messages.find("orders", "alice", str(uuid4())) is None
    assert await queue.messages.find("orders", "alice", "nobody") is None


async def test_a_message_with_a_chosen_id_has_no_other(queue: Broker) -> None:
    (receipt,) = await queue.push("orders", [Draft(b"a", "alice", "t-1")])

    assert await queue.messages.find("orders", "alice", str(receipt.id)) is None


async def test_looking_where_there_is_no_queue_or_partition_says_so(queue: Broker) -> None:
    await queue.push("orders", drafts(1))

    with pytest.raises(QueueNotFound):
        await queue.messages.find("invoices", "Default", "t-1")
    with pytest.raises(PartitionNotFound):
        await queue.messages.find("orders", "bob", "t-1")
    with pytest.raises(QueueNotFound):
        await queue.messages.list("invoices")
    with pytest.raises(PartitionNotFound):
        await queue.messages.list("orders", partition="bob")


# A partition, page by page.


async def test_the_messages_of_a_partition_come_newest_first(queue: Broker) -> None:
    await queue.push("orders", [*drafts(2, "alice"), *drafts(1, "bob", first=7)])
    await queue.push("orders", drafts(2, "alice", first=2))

    page = await queue.messages.list("orders", partition="alice")

    assert texts(page.messages) == [b"3", b"2", b"1", b"0"]
    assert [message.offset for message in page.messages] == [3, 2, 1, 0]
    assert page.next is None


@pytest.mark.parametrize("limit", [1, 2, 3, 6, 7, 100])
async def test_the_pages_of_a_partition_hold_every_message_once(queue: Broker, limit: int) -> None:
    for first, count in ((0, 1), (1, 4), (5, 2)):
        await queue.push("orders", drafts(count, "alice", first=first))

    found = await pages(queue, partition="alice", limit=limit)

    everything = [b"%d" % n for n in range(6, -1, -1)]
    assert [payload for page in found for payload in page] == everything
    assert [len(page) for page in found[:-1]] == [limit] * (len(found) - 1)


async def test_a_page_of_a_partition_does_not_move_while_pushes_go_on(queue: Broker) -> None:
    await queue.push("orders", drafts(4, "alice"))
    first = await queue.messages.list("orders", partition="alice", limit=2)

    await queue.push("orders", drafts(3, "alice", first=4))

    second = await queue.messages.list("orders", partition="alice", before=first.next, limit=10)
    assert (texts(first.messages), texts(second.messages)) == ([b"3", b"2"], [b"1", b"0"])
    assert second.next is None


async def test_what_retention_took_between_two_pages_is_left_out(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.queues.configure("orders", retention_enabled=True, retention_seconds=60)
    await queue.push("orders", drafts(3, "alice"))
    clock.advance(61)
    await queue.push("orders", drafts(3, "alice", first=3))
    first = await queue.messages.list("orders", partition="alice", limit=2)

    await queue.sweep()

    second = await queue.messages.list("orders", partition="alice", before=first.next, limit=10)
    assert texts(second.messages) == [b"3"]
    assert second.next is None


async def test_a_partition_that_was_emptied_has_one_empty_page(queue: Broker) -> None:
    await queue.push("orders", drafts(3, "alice"))
    await queue.queues.clear("orders")

    assert await pages(queue, partition="alice", limit=2) == [[]]


async def test_a_page_of_large_messages_is_whole(store: Store) -> None:
    limits = Limits(pop_bytes=1000)
    async with make_broker(store, limits=limits) as queue:
        for n in range(6):
            await queue.push("orders", [Draft(b"%d" % n * 600, "alice")])

        found = await pages(queue, partition="alice", limit=4)

    assert [[payload[:1] for payload in page] for page in found] == [
        [b"5", b"4", b"3", b"2"],
        [b"1", b"0"],
    ]


# A queue, page by page.


async def test_the_messages_of_a_queue_come_in_the_order_of_commits_newest_first(
    queue: Broker, clock: ManualClock
) -> None:
    for n, partition in enumerate(["alice", "bob", "alice", "carol"]):
        await queue.push("orders", drafts(1, partition, first=n))
        clock.advance(1)

    page = await queue.messages.list("orders")

    assert texts(page.messages) == [b"3", b"2", b"1", b"0"]
    assert page.next is None


async def test_messages_of_other_queues_are_not_listed(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    await queue.push("invoices", drafts(1, first=1))

    assert await pages(queue, limit=10) == [[b"0"]]


@pytest.mark.one_server("commits of two servers in one instant have no order")
@pytest.mark.parametrize("limit", [1, 2, 3, 5, 12, 13, 100])
async def test_the_pages_of_a_queue_hold_every_message_once(queue: Broker, limit: int) -> None:
    for n in range(4):
        await queue.push("orders", drafts(3, "alice" if n % 2 else "bob", first=3 * n))

    found = await pages(queue, limit=limit)

    everything = [b"%d" % n for n in range(11, -1, -1)]
    assert [payload for page in found for payload in page] == everything
    assert all(len(page) == limit for page in found[:-1])


async def test_a_page_of_a_queue_does_not_move_while_pushes_go_on(queue: Broker) -> None:
    await queue.push("orders", drafts(2, "alice"))
    await queue.push("orders", drafts(2, "bob", first=2))
    first = await queue.messages.list("orders", limit=3)

    await asyncio.gather(
        *(queue.push("orders", drafts(2, name, first=4)) for name in ("alice", "bob", "carol"))
    )

    second = await queue.messages.list("orders", before=first.next, limit=10)
    assert (texts(first.messages), texts(second.messages)) == ([b"3", b"2", b"1"], [b"0"])
    assert second.next is None


async def test_pages_read_during_pushes_hold_no_message_twice_and_miss_none(
    queue: Broker,
) -> None:
    await queue.push("orders", drafts(50, "alice"))

    async def go_on() -> None:
        for n in range(20):
            await queue.push("orders", drafts(1, f"p{n % 3}", first=1000 + n))

    found, _ = await asyncio.gather(pages(queue, limit=7), go_on())

    seen = [int(payload) for page in found for payload in page]
    assert len(seen) == len(set(seen))
    assert {n for n in seen if n < 1000} == set(range(50))


async def test_a_queue_without_messages_has_one_empty_page(queue: Broker) -> None:
    await queue.queues.configure("orders")

    assert await pages(queue, limit=10) == [[]]


async def test_what_was_removed_is_not_listed_in_a_queue(queue: Broker) -> None:
    for n, partition in enumerate(["alice", "bob", "alice", "bob"]):
        await queue.push("orders", drafts(2, partition, first=2 * n))

    await queue.queues.clear("orders", partition="alice")

    for limit in (1, 2, 3, 100):
        found = await pages(queue, limit=limit)
        assert [payload for page in found for payload in page] == [b"7", b"6", b"3", b"2"]


async def test_a_listing_is_bounded(queue: Broker) -> None:
    for limit in (0, 1001):
        with pytest.raises(Invalid, match="limit"):
            await queue.messages.list("orders", limit=limit)


async def test_a_listing_that_names_no_limit_works_where_pages_are_small(store: Store) -> None:
    async with make_broker(store, limits=Limits(page=2)) as queue:
        await queue.push("orders", drafts(3))

        page = await queue.messages.list("orders")

        assert texts(page.messages) == [b"2", b"1"]
        assert await queue.dead_letters.list("orders") == []
        assert await queue.traces.named("checkout") == []
        assert await queue.traces.names() == []


async def test_listing_moves_nobody(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    await queue.ack(await pop(queue))

    await pages(queue, limit=1)
    await pages(queue, limit=1, partition="Default")

    assert await cursors(queue) == {"Default": 1}
    assert await pop_all(queue, batch=10) == [b"1", b"2"]


async def test_messages_are_read_the_same_from_memory_and_from_the_store(store: Store) -> None:
    nothing_is_kept_in_memory = Limits(cache_bytes=0)
    async with make_broker(store, limits=nothing_is_kept_in_memory) as queue:
        receipts = await queue.push("orders", [Draft(b"%d" % n, "a", f"t{n}") for n in range(5)])

        found = [await queue.messages.get(receipt.id) for receipt in receipts]
        listed = (await queue.messages.list("orders", partition="a")).messages

    assert texts(found) == [b"0", b"1", b"2", b"3", b"4"]
    assert listed == found[::-1]


# Taking one out.


async def test_a_deleted_message_is_gone_and_its_offset_stays_empty(queue: Broker) -> None:
    receipts = await queue.push("orders", drafts(3))

    await queue.messages.delete(receipts[1].id)

    with pytest.raises(MessageNotFound):
        await queue.messages.get(receipts[1].id)
    assert texts((await queue.messages.list("orders")).messages) == [b"2", b"0"]
    delivery = await pop(queue, batch=10)
    assert offsets(delivery) == [0, 2]


async def test_a_message_is_deleted_once(queue: Broker) -> None:
    (receipt,) = await queue.push("orders", drafts(1))
    await queue.messages.delete(receipt.id)

    with pytest.raises(MessageNotFound):
        await queue.messages.delete(receipt.id)


async def test_a_deleted_message_is_not_delivered_to_any_group(queue: Broker) -> None:
    await queue.pop("orders", group="audit")
    receipts = await queue.push("orders", drafts(2))

    await queue.messages.delete(receipts[0].id)

    assert await pop_all(queue, group="billing") == [b"1"]
    assert await pop_all(queue, group="audit") == [b"1"]


async def test_a_partition_with_only_deleted_messages_has_nothing_to_deliver(
    queue: Broker,
) -> None:
    for receipt in await queue.push("orders", drafts(3)):
        await queue.messages.delete(receipt.id)

    assert await queue.pop("orders", batch=10) is None

    await queue.push("orders", drafts(1, first=3))
    assert payloads(await queue.pop("orders", batch=10)) == [b"3"]


async def test_a_run_ends_when_all_of_it_is_done_or_deleted(queue: Broker) -> None:
    receipts = await queue.push("orders", drafts(3))
    await queue.messages.delete(receipts[2].id)
    delivery = await pop(queue, batch=3)

    settlement = await queue.ack(delivery, delivery.messages)

    assert (settlement.completed, settlement.released) == (2, True)
    assert await backlogs(queue) == {"Default": 0}


async def test_a_message_deleted_while_it_is_leased_does_not_come_again(
    queue: Broker, clock: ManualClock
) -> None:
    receipts = await queue.push("orders", drafts(3))
    await pop(queue, batch=3, lease_seconds=30)
    await queue.messages.delete(receipts[1].id)
    clock.advance(31)

    assert payloads(await queue.pop("orders", batch=3)) == [b"0", b"2"]


async def test_a_deleted_message_is_not_found_by_its_ids(queue: Broker) -> None:
    chosen, derived = await queue.push(
        "orders", [Draft(b"a", "alice", "t-1"), Draft(b"b", "alice")]
    )

    for receipt in (chosen, derived):
        await queue.messages.delete(receipt.id)

    assert await queue.messages.find("orders", "alice", "t-1") is None
    assert await queue.messages.find("orders", "alice", derived.transaction_id) is None


async def test_deleting_a_message_leaves_its_dead_letter(queue: Broker) -> None:
    await queue.queues.configure("orders", retry_limit=0)
    (receipt,) = await queue.push("orders", drafts(1))
    await queue.fail(await pop(queue))

    await queue.messages.delete(receipt.id)

    assert [letter.payload for letter in await queue.dead_letters.list("orders")] == [b"0"]


async def test_a_message_deleted_while_others_are_pushed_is_the_only_one_missing(
    queue: Broker,
) -> None:
    receipts = await queue.push("orders", drafts(5))

    await asyncio.gather(
        queue.messages.delete(receipts[2].id),
        *(queue.push("orders", drafts(1, first=5 + n)) for n in range(5)),
    )

    expected = [b"%d" % n for n in range(10) if n != 2]
    assert sorted(await pop_all(queue, batch=3)) == expected


async def test_a_deleted_message_is_deleted_for_the_next_process(store: Store) -> None:
    before = await make_broker(store).__aenter__()
    receipts = await before.push("orders", drafts(3))
    await before.messages.delete(receipts[1].id)

    async with make_broker(store) as after:
        assert await pop_all(after, batch=10) == [b"0", b"2"]


async def test_a_message_that_somebody_else_deleted_is_not_shown_after_one_has_tried(
    store: Store,
) -> None:
    async with make_broker(store) as queue:
        (receipt,) = await queue.push("orders", drafts(1))
        await store.delete_message(
            (await queue.queues.get("orders")).number, receipt.partition_number, receipt.offset
        )

        with pytest.raises(MessageNotFound):
            await queue.messages.delete(receipt.id)

        with pytest.raises(MessageNotFound):
            await queue.messages.get(receipt.id)
        assert await queue.pop("orders") is None
