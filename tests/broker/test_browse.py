"""Looking at messages of many queues, newest first."""

from itertools import chain
from typing import Any

import pytest

from skep import Broker, Draft, KeyRing, Push
from skep.core.insight.dead_letter_browser import DeadLetterQuery
from skep.core.insight.message_browser import MAX_LOOKED_AT, MessageFilter
from skep.errors import Invalid, MessageNotFound
from skep.model.message_view import MessagePage
from skep.store.protocol import Store
from skep.testing.clock import ManualClock
from tests.support.broker_builders import drafts, make_broker, moment, pop


async def look(
    queue: Broker, *names: str, payloads: bool = True, limit: int = 100, **asked: Any
) -> MessagePage:
    paging = {key: asked.pop(key) for key in ("before", "offset") if key in asked}
    queues = await queue.insight.queues.find(lambda name: not names or name in names)
    return await queue.insight.messages.page(
        queues, MessageFilter(**asked), payloads=payloads, limit=limit, **paging
    )


def shown(page: MessagePage) -> list[str]:
    return [view.message.payload.decode() for view in page.messages]


async def pages(queue: Broker, *names: str, limit: int, **asked: Any) -> list[list[str]]:
    """All pages, one after the other."""
    page = await look(queue, *names, limit=limit, **asked)
    found = [shown(page)]
    while page.next is not None:
        page = await look(queue, *names, limit=limit, before=page.next, **asked)
        found.append(shown(page))
    return found


async def test_messages_of_all_queues_come_newest_first(queue: Broker, clock: ManualClock) -> None:
    for n, name in enumerate(["orders", "payments", "orders", "stock"]):
        await queue.push(name, drafts(2, first=10 * n))
        clock.advance(1)

    assert shown(await look(queue)) == ["31", "30", "21", "20", "11", "10", "1", "0"]
    assert shown(await look(queue, "orders")) == ["21", "20", "1", "0"]


async def test_pages_show_everything_once_also_what_is_equally_old(queue: Broker) -> None:
    for _ in range(3):
        await queue.transact(
            [Push("orders", drafts(3, "a")), Push("payments", drafts(2)), Push("stock", drafts(1))]
        )
    whole = shown(await look(queue))

    for limit in (1, 2, 4, 5, 17, 18):
        assert list(chain(*await pages(queue, limit=limit))) == whole
    assert len(whole) == 18


async def test_what_is_pushed_between_pages_is_not_shown_on_them(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(2))
    await queue.push("payments", drafts(2, first=2))
    first = await look(queue, limit=3)
    clock.advance(1)

    await queue.push("orders", drafts(2, first=4))
    second = await look(queue, limit=3, before=first.next)

    assert sorted(shown(first) + shown(second)) == ["0", "1", "2", "3"]


async def test_the_last_page_says_so(queue: Broker) -> None:
    await queue.push("orders", drafts(4))

    assert await pages(queue, limit=2) == [["3", "2"], ["1", "0"]]
    assert (await look(queue, "none")).next is None


async def test_a_partition_is_read_alone(queue: Broker) -> None:
    for n in range(6):
        await queue.push("orders", drafts(2, "ab"[n % 2], first=2 * n))

    found = await pages(queue, "orders", limit=4, partition="b")

    assert found == [["11", "10", "7", "6"], ["3", "2"]]
    assert await pages(queue, "orders", limit=4, partition="none") == [[]]


@pytest.mark.parametrize("partition", [None, "Default"])
async def test_only_the_time_asked_for_is_shown(
    queue: Broker, clock: ManualClock, partition: str | None
) -> None:
    for n in range(9):
        await queue.push("orders", drafts(1, first=n))
        clock.advance(10)
    asked = {"partition": partition, "from_": moment(clock, -60), "to": moment(clock, -30)}

    assert await pages(queue, limit=2, **asked) == [["5", "4"], ["3"]]


async def test_an_offset_skips_what_matches(queue: Broker) -> None:
    await queue.push("orders", drafts(5))

    assert shown(await look(queue, offset=1, limit=2)) == ["3", "2"]
    assert shown(await look(queue, offset=5)) == []


async def test_statuses_are_told_apart_and_asked_for(queue: Broker) -> None:
    await queue.queues.configure("orders", retry_limit=0)
    await queue.push("orders", drafts(6))
    await queue.ack(await pop(queue, batch=2))
    await queue.fail(await pop(queue, batch=1), error="broken")
    await pop(queue, batch=2)

    by_status = {view.message.offset: view.status for view in (await look(queue)).messages}

    assert by_status == {
        0: "completed",
        1: "completed",
        2: "dead_letter",
        3: "processing",
        4: "processing",
        5: "pending",
    }
    assert shown(await look(queue, status="dead_letter")) == ["2"]
    assert shown(await look(queue, status="processing", limit=1)) == ["4"]
    assert await pages(queue, status="completed", limit=1) == [["1"], ["0"]]


async def test_a_status_is_that_of_all_groups_together(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    await queue.ack(await pop(queue, batch=2, group="billing"))
    await queue.ack(await pop(queue, batch=1, group="stock"))
    await pop(queue, batch=1, group="stock")

    views = (await look(queue)).messages

    assert [view.status for view in views] == ["pending", "processing", "completed"]
    assert [each.status for each in views[1].group_statuses] == ["completed", "processing"]


@pytest.mark.one_server("commits of two servers in one instant have no order")
async def test_looking_for_what_is_rare_ends_and_can_be_gone_on_with(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    await pop(queue, auto_ack=True)
    for n in range(0, MAX_LOOKED_AT, 2000):
        await queue.push("orders", drafts(2000, first=n))

    first = await look(queue, status="completed")
    second = await look(queue, status="completed", before=first.next)

    assert (shown(first), first.next is None) == ([], False)
    assert (shown(second), second.next) == (["0"], None)


async def test_deleted_messages_are_not_shown(queue: Broker) -> None:
    receipts = await queue.push("orders", drafts(3))
    await queue.messages.delete(receipts[1].id)

    assert shown(await look(queue)) == ["2", "0"]
    with pytest.raises(MessageNotFound):
        await queue.insight.messages.get(receipts[1].id)


async def test_what_retention_removed_is_not_shown(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    await queue.queues.clear("orders")
    await queue.push("orders", drafts(2, first=3))

    assert await pages(queue, limit=1) == [["4"], ["3"]]
    assert await pages(queue, limit=1, partition="Default") == [["4"], ["3"]]


async def test_payloads_are_shown_only_if_they_are_asked_for(queue: Broker) -> None:
    await queue.push("orders", [Draft(b"secret", transaction_id="a")])

    (view,) = (await look(queue, payloads=False)).messages

    assert (view.message.payload, view.shown) == (b"", False)
    assert view.message.transaction_id == "a"


async def test_what_cannot_be_decrypted_is_shown_without_its_payload(store: Store) -> None:
    with_key = make_broker(store, keys=KeyRing({"a": bytes(32)}, current="a"))
    await with_key.queues.configure("orders", encryption_enabled=True)
    await with_key.push("orders", drafts(1))

    (seen,) = (await look(with_key)).messages
    async with make_broker(store) as without_key:
        (unseen,) = (await look(without_key)).messages

    assert (seen.shown, seen.encrypted, seen.message.payload) == (True, True, b"0")
    assert (unseen.shown, unseen.encrypted) == (False, True)


async def test_large_payloads_end_a_page_early(queue: Broker) -> None:
    for n in range(5):
        await queue.push("orders", [Draft(b"%d" % n * (4 << 20))])

    page = await look(queue)

    assert len(page.messages) == 4
    assert page.next is not None


@pytest.mark.parametrize("before", ["", "x", "1.2.3", "1.2.3.4.5", "1.2.3.-4", "1:2"])
async def test_what_is_no_next_of_a_page_is_refused(queue: Broker, before: str) -> None:
    with pytest.raises(Invalid, match="before"):
        await look(queue, before=before)


# Dead letters.


async def test_dead_letters_of_all_queues_come_newest_first_in_pages(queue: Broker) -> None:
    for n, name in enumerate(["orders", "payments", "orders"]):
        await queue.queues.configure(name, retry_limit=0)
        await queue.push(name, drafts(2, first=10 * n))
        await queue.fail(await pop(queue, name, batch=2))
    queues = await queue.insight.queues.find(lambda name: True)

    whole = await queue.insight.dead_letters.page(queues, DeadLetterQuery())
    first = await queue.insight.dead_letters.page(queues, DeadLetterQuery(), limit=4)
    second = await queue.insight.dead_letters.page(
        queues, DeadLetterQuery(), limit=4, before=first.next
    )
    skipped = await queue.insight.dead_letters.page(queues, DeadLetterQuery(), limit=3, offset=2)

    assert [x.payload for x in whole.dead_letters] == [b"21", b"20", b"11", b"10", b"1", b"0"]
    assert (whole.total, whole.next) == (6, None)
    assert first.dead_letters + second.dead_letters == whole.dead_letters
    assert (second.total, second.next) == (6, None)
    assert skipped.dead_letters == whole.dead_letters[2:5]
