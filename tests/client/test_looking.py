"""Messages, dead letters and traces through a client: what the broker says of them."""

from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from skep import AsyncClient, Broker, Draft
from skep.errors import (
    Conflict,
    DeadLetterNotFound,
    Forbidden,
    GroupNotFound,
    Invalid,
    MessageNotFound,
    QueueNotFound,
)
from skep.http.app import App
from skep.http.auth.principal import Permission
from skep.http.routes import all_routes
from skep.model.address import message_id
from skep.model.message_view import TracedMessage
from skep.testing.clock import ManualClock
from tests.support.broker_builders import dead, drafts, moment, payloads, pop
from tests.support.http.json_client import Badge, somebody

TRACE = UUID("7c9e6679-7425-40de-944b-e07fc1f90ae7")


async def bury(broker: Broker, *some: Draft, group: str = "billing") -> list[int]:
    """Make dead letters of messages; their numbers in the order of the drafts."""
    await broker.queues.configure("orders", retry_limit=0)
    await broker.push("orders", some)
    await broker.fail(
        await pop(broker, group=group, batch=1000, partitions=100), error="the bank is down"
    )
    letters = await broker.dead_letters.list("orders", limit=1000)
    return [letter.number for letter in letters][: len(some)][::-1]


async def test_a_message_is_found_by_its_id(client: AsyncClient, broker: Broker) -> None:
    some = [Draft(b'{"n": 1}', "alice", "o/1 ä", TRACE), Draft(b"\xff", "alice")]
    receipts = await broker.push("orders", some, producer="web")

    for receipt in receipts:
        assert await client.messages.get(receipt.id) == await broker.messages.get(receipt.id)
    with pytest.raises(MessageNotFound) as caught:
        await client.messages.get(message_id(receipts[0].partition_number, 99))
    assert caught.value.message == str(message_id(receipts[0].partition_number, 99))
    with pytest.raises(MessageNotFound):
        await client.messages.get(message_id(12345, 0))


async def test_a_message_is_found_by_its_transaction_id(
    client: AsyncClient, broker: Broker
) -> None:
    chosen, derived = await broker.push("orders", [Draft(b"1", "a/b", "o/1"), Draft(b"2", "a/b")])

    for receipt in (chosen, derived):
        found = await client.messages.find("orders", "a/b", receipt.transaction_id)
        assert found == await broker.messages.get(receipt.id)
    assert await client.messages.find("orders", "a/b", "o/2") is None
    assert await client.messages.find("orders", "a/b", str(chosen.id)) is None
    await broker.queues.clear("orders")
    assert await client.messages.find("orders", "a/b", "o/1") is None


async def test_messages_are_listed_page_by_page(
    client: AsyncClient, broker: Broker, clock: ManualClock
) -> None:
    await broker.push("orders", [*drafts(3), Draft(b"3", "alice")])
    clock.advance(7200)
    await broker.push("orders", drafts(1, first=4))

    first = await client.messages.list("orders", limit=3)
    second = await client.messages.list("orders", limit=3, before=first.next)

    found = [message.payload for message in (*first.messages, *second.messages)]
    assert sorted(found) == [b"0", b"1", b"2", b"3", b"4"]
    assert (found[0], second.next) == (b"4", None)
    of_alice = await client.messages.list("orders", partition="alice")
    assert of_alice.messages == (await broker.messages.list("orders", partition="alice")).messages
    with pytest.raises(QueueNotFound):
        await client.messages.list("none")


async def test_a_message_is_removed(client: AsyncClient, broker: Broker) -> None:
    first, _ = await broker.push("orders", [Draft(b"1", transaction_id="o-1"), Draft(b"2")])

    await client.messages.delete(first.id)

    assert payloads(await broker.pop("orders", batch=9)) == [b"2"]
    with pytest.raises(MessageNotFound):
        await client.messages.delete(first.id)
    with pytest.raises(Invalid):
        await client.messages.delete(uuid4())


async def test_a_message_is_given_up_before_it_is_delivered(
    client: AsyncClient, broker: Broker
) -> None:
    await broker.push("orders", drafts(2))
    for group in ("billing", "shipping"):
        await broker.ack(await pop(broker, group=group))
    (last,) = (await client.messages.list("orders", limit=1)).messages

    assert await client.messages.give_up(last.id, group="billing", error="broken") == ["billing"]
    assert await client.messages.give_up(last.id) == ["shipping"]

    letters = await broker.dead_letters.list("orders")
    assert [(letter.group, letter.message_id) for letter in letters] == [
        ("shipping", last.id),
        ("billing", last.id),
    ]
    assert letters[1].error == "broken"
    with pytest.raises(Conflict):
        await client.messages.give_up(last.id)
    with pytest.raises(GroupNotFound):
        await client.messages.give_up(last.id, group="none")


async def test_dead_letters_are_those_of_the_broker(
    client: AsyncClient, broker: Broker, clock: ManualClock
) -> None:
    await bury(broker, Draft(b"1", "alice", "o-1", TRACE), Draft(b"\xff", "bob"))
    clock.advance(10)
    (last,) = await bury(broker, Draft(b"3", "alice"), group="shipping")
    letters = broker.dead_letters
    asked: list[dict[str, Any]] = [
        {},
        {"group": "billing"},
        {"partition": "alice"},
        {"from_": moment(clock)},
        {"to": moment(clock)},
    ]

    for which in asked:
        found = await client.dead_letters.list("orders", **which)
        assert found == await letters.list("orders", **which)
        assert await client.dead_letters.count("orders", **which) == len(found)
    page = await client.dead_letters.list("orders", before=last, limit=2)
    assert page == await letters.list("orders", before=last, limit=2)
    assert await client.dead_letters.get("orders", last) == await letters.get("orders", last)
    with pytest.raises(DeadLetterNotFound):
        await client.dead_letters.get("orders", last + 1)


async def test_dead_letters_are_sent_back(client: AsyncClient, broker: Broker) -> None:
    numbers = await bury(broker, *[Draft(b"%d" % n, "alice", f"o-{n}") for n in range(300)])

    receipts = await client.dead_letters.replay("orders", numbers[:250])

    assert [receipt.transaction_id for receipt in receipts] == [f"o-{n}" for n in range(250)]
    for receipt in (receipts[0], receipts[-1]):
        assert (await broker.messages.get(receipt.id)).transaction_id == receipt.transaction_id
    assert await client.dead_letters.replay_all("orders", group="none") == 0
    assert await client.dead_letters.replay_all("orders") == 50
    assert await dead(broker) == []
    with pytest.raises(DeadLetterNotFound):
        await client.dead_letters.replay("orders", numbers[:1])


async def test_dead_letters_are_thrown_away(client: AsyncClient, broker: Broker) -> None:
    numbers = await bury(broker, *[Draft(b"%d" % n, f"p{n % 2}") for n in range(300)])

    await client.dead_letters.delete("orders", numbers[:250])

    assert await client.dead_letters.count("orders") == 50
    assert await client.dead_letters.delete_all("orders", partition="p0") == 0
    assert await client.dead_letters.delete_all("orders") == 50
    with pytest.raises(DeadLetterNotFound):
        await client.dead_letters.delete("orders", numbers[:1])
    with pytest.raises(Invalid):
        await client.dead_letters.delete("orders", "12")  # type: ignore[arg-type]


async def test_what_is_recorded_about_a_message_is_what_the_broker_keeps(
    client: AsyncClient, broker: Broker, clock: ManualClock
) -> None:
    receipts = await client.push("orders", [Draft(b"1", "alice", "o-1"), Draft(b"2")])
    first, second = (receipt.id for receipt in receipts)

    one = await client.traces.record(
        first, "charged", b'{"ms": 12}', names=["checkout", "checkout"], group="b", worker="w"
    )
    clock.advance(1)
    two = await client.traces.record(second, "sent", b"\xff", names=["checkout", "mail"])

    assert await client.traces.events(first) == await broker.traces.events(first) == [one]
    assert await client.traces.events(second) == [two]
    assert await client.traces.named("checkout") == [two, one]
    assert await client.traces.named("checkout", before=two.number, limit=1) == [one]
    of_mail = await client.traces.named_messages("mail")
    assert of_mail == [TracedMessage(event=two, message=await broker.messages.get(second))]
    of_alice = await client.traces.named_messages("checkout", before=two.number)
    assert of_alice == [TracedMessage(event=one, message=await broker.messages.get(first))]
    assert await client.traces.names() == await broker.traces.names()
    assert [name.name for name in await client.traces.names(after="checkout")] == ["mail"]
    assert [name.name for name in await client.traces.names(limit=1)] == ["checkout"]
    with pytest.raises(MessageNotFound):
        await client.traces.record(message_id(1, 99), "charged", b"1")
    with pytest.raises(Invalid):
        await client.traces.record(first, "charged", "text")  # type: ignore[arg-type]


async def test_messages_that_share_a_trace_id_are_found_in_all_queues(
    client: AsyncClient, broker: Broker
) -> None:
    await broker.push("orders", [Draft(b"1", trace_id=TRACE), Draft(b"2")])
    await broker.push("mails", [Draft(b"3", trace_id=TRACE)])

    found = await client.traces.messages(TRACE)

    assert found == await broker.traces.messages(TRACE)
    assert [message.payload for message in found] == [b"1", b"3"]


async def test_what_became_of_messages_that_share_a_trace_id_is_told(
    client: AsyncClient, broker: Broker
) -> None:
    await broker.push("orders", [Draft(b"1", trace_id=TRACE)])
    await broker.push("mails", [Draft(b"2", trace_id=TRACE)])
    await broker.ack(await pop(broker))

    found = await client.traces.statuses(TRACE)

    assert [(message.payload, status) for message, status in found] == [
        (b"1", "completed"),
        (b"2", "pending"),
    ]


async def test_payloads_are_not_passed_off_as_empty_to_who_may_not_see_them(
    broker: Broker,
) -> None:
    await bury(broker, Draft(b"1"))
    badge = Badge(somebody(Permission.STATUS))
    transport = httpx.ASGITransport(App(broker, all_routes(), authenticator=badge))

    async with AsyncClient(transport=transport) as client:
        with pytest.raises(Forbidden):
            await client.messages.list("orders")
        with pytest.raises(Forbidden):
            await client.dead_letters.list("orders")
        assert await client.dead_letters.count("orders") == 1
