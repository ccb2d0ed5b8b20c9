"""Traces: messages that share a trace id, and what was recorded about a message."""

import asyncio
from uuid import UUID, uuid4

import pytest

from skep import Broker, Draft, Message
from skep.core.admin.trace import MAX_NAMES
from skep.errors import Invalid, MessageNotFound
from skep.model.address import message_id
from skep.model.trace import TraceEvent, TraceName
from skep.store.protocol import Store
from skep.testing.clock import ManualClock
from tests.support.broker_builders import drafts, make_broker, pop

TRACE = UUID("0198c3f0-0000-7000-8000-000000000001")
OTHER = UUID("0198c3f0-0000-7000-8000-000000000002")
EVERY_BYTE = bytes(range(256))


def traced(payload: bytes, partition: str = "alice", trace_id: UUID | None = TRACE) -> Draft:
    return Draft(payload, partition, trace_id=trace_id)


def payloads(messages: list[Message]) -> list[bytes]:
    return [message.payload for message in messages]


async def a_message(queue: Broker) -> UUID:
    (receipt,) = await queue.push("orders", drafts(1))
    return receipt.id


# The messages of a trace id.


async def test_the_messages_of_a_trace_id_come_from_all_queues_in_the_order_of_time(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", [traced(b"1", "alice")])
    clock.advance(1)
    await queue.push("shipping", [traced(b"2", "bob")])
    clock.advance(1)
    await queue.push("orders", [traced(b"3", "alice")])

    found = await queue.traces.messages(TRACE)

    assert payloads(found) == [b"1", b"2", b"3"]
    assert [message.queue for message in found] == ["orders", "shipping", "orders"]
    assert {message.trace_id for message in found} == {TRACE}


async def test_other_messages_are_not_part_of_a_trace(queue: Broker) -> None:
    mixed = [traced(b"a"), traced(b"b", trace_id=None), traced(b"c", trace_id=OTHER), traced(b"d")]
    await queue.push("orders", mixed)

    assert payloads(await queue.traces.messages(TRACE)) == [b"a", b"d"]
    assert payloads(await queue.traces.messages(OTHER)) == [b"c"]
    assert await queue.traces.messages(uuid4()) == []


async def test_a_trace_does_not_end_when_its_messages_are_consumed(queue: Broker) -> None:
    await queue.push("orders", [traced(b"a")])
    await queue.ack(await pop(queue))

    assert payloads(await queue.traces.messages(TRACE)) == [b"a"]


async def test_a_trace_shows_no_more_messages_than_asked_for(queue: Broker) -> None:
    await queue.push("orders", [traced(b"%d" % n) for n in range(5)])

    assert payloads(await queue.traces.messages(TRACE, limit=3)) == [b"0", b"1", b"2"]


async def test_messages_of_queues_that_are_not_seen_do_not_count_towards_the_limit(
    queue: Broker,
) -> None:
    for name, payload in (("orders", b"a"), ("payments", b"b"), ("payments", b"c")):
        await queue.push(name, [Draft(payload, trace_id=TRACE)])

    found = await queue.traces.messages(TRACE, visible=lambda name: name == "payments", limit=1)

    assert payloads(found) == [b"b"]


async def test_a_trace_loses_what_was_removed(queue: Broker) -> None:
    receipts = await queue.push("orders", [traced(b"a"), traced(b"b"), traced(b"c", "bob")])

    await queue.messages.delete(receipts[0].id)
    await queue.queues.clear("orders", partition="bob")

    assert payloads(await queue.traces.messages(TRACE)) == [b"b"]


async def test_a_trace_is_known_to_the_next_process(store: Store) -> None:
    before = await make_broker(store).__aenter__()
    await before.push("orders", [traced(b"a")])
    identifier = await a_message(before)
    await before.traces.record(identifier, "info", b"{}", names=["checkout"])

    async with make_broker(store) as after:
        assert payloads(await after.traces.messages(TRACE)) == [b"a"]
        assert len(await after.traces.events(identifier)) == 1
        assert len(await after.traces.named("checkout")) == 1


# What was recorded.


async def test_an_event_holds_what_was_recorded(queue: Broker, clock: ManualClock) -> None:
    identifier = await a_message(queue)
    clock.advance(60)
    await queue.traces.record(
        identifier, "step", EVERY_BYTE, names=["checkout", "vip"], group="billing", worker="w-1"
    )

    (event,) = await queue.traces.events(identifier)

    assert message_id(event.partition, event.offset) == identifier
    assert event == TraceEvent(
        number=event.number,
        partition=event.partition,
        offset=0,
        kind="step",
        data=EVERY_BYTE,
        names=("checkout", "vip"),
        group="billing",
        worker="w-1",
        created_at=clock.now(),
    )


async def test_events_of_a_message_come_oldest_first(queue: Broker) -> None:
    identifier = await a_message(queue)
    for n in range(3):
        await queue.traces.record(identifier, "step", b"%d" % n)

    events = await queue.traces.events(identifier)

    assert [event.data for event in events] == [b"0", b"1", b"2"]


async def test_events_belong_to_their_own_message(queue: Broker) -> None:
    first, second = [receipt.id for receipt in await queue.push("orders", drafts(2))]
    await queue.traces.record(first, "step", b"first")

    assert await queue.traces.events(second) == []


async def test_events_at_the_same_time_are_all_recorded(queue: Broker) -> None:
    identifier = await a_message(queue)

    await asyncio.gather(
        *(queue.traces.record(identifier, "step", b"%d" % n, names=["many"]) for n in range(20))
    )

    events = await queue.traces.events(identifier)
    assert sorted(int(event.data) for event in events) == list(range(20))
    assert len({event.number for event in events}) == 20
    assert len(await queue.traces.named("many")) == 20


async def test_a_message_that_does_not_exist_has_no_events(queue: Broker) -> None:
    identifier = await a_message(queue)
    await queue.queues.clear("orders")

    with pytest.raises(MessageNotFound):
        await queue.traces.record(identifier, "step", b"{}")

    assert await queue.traces.events(identifier) == []


async def test_a_message_without_events_has_none(queue: Broker) -> None:
    assert await queue.traces.events(await a_message(queue)) == []


async def test_events_live_as_long_as_their_message(queue: Broker) -> None:
    identifier = await a_message(queue)
    await queue.traces.record(identifier, "step", b"{}", names=["checkout"])

    await queue.messages.delete(identifier)

    assert await queue.traces.events(identifier) == []
    assert await queue.traces.named("checkout") == []
    assert await queue.traces.names() == []


async def test_recording_does_not_touch_the_message(queue: Broker) -> None:
    identifier = await a_message(queue)
    delivery = await pop(queue)

    await queue.traces.record(identifier, "step", b"{}")

    assert (await queue.ack(delivery)).completed == 1
    assert (await queue.queues.stats("orders")).pushed == 1


# Names that tie events together.


async def test_a_name_ties_events_of_different_messages_together(queue: Broker) -> None:
    first, second = [receipt.id for receipt in await queue.push("orders", drafts(2))]
    await queue.traces.record(first, "step", b"1", names=["checkout"])
    await queue.traces.record(second, "step", b"2", names=["checkout", "vip"])
    await queue.traces.record(second, "step", b"3", names=["vip"])

    found = await queue.traces.named("checkout")

    assert [event.data for event in found] == [b"2", b"1"]
    assert await queue.traces.named("check") == []
    assert await queue.traces.named("checkout2") == []


async def test_events_of_a_name_come_page_by_page(queue: Broker) -> None:
    identifier = await a_message(queue)
    for n in range(5):
        await queue.traces.record(identifier, "step", b"%d" % n, names=["checkout"])

    pages: list[list[bytes]] = []
    before: int | None = None
    while page := await queue.traces.named("checkout", before=before, limit=2):
        pages.append([event.data for event in page])
        before = page[-1].number

    assert pages == [[b"4", b"3"], [b"2", b"1"], [b"0"]]


async def test_names_say_how_much_stands_behind_them(queue: Broker, clock: ManualClock) -> None:
    first, second = [receipt.id for receipt in await queue.push("orders", drafts(2))]
    await queue.traces.record(first, "step", b"1", names=["b", "a"])
    await queue.traces.record(first, "step", b"2", names=["b"])
    clock.advance(60)
    await queue.traces.record(second, "step", b"3", names=["b"])
    now = clock.now()

    assert await queue.traces.names() == [
        TraceName(name="a", events=1, messages=1, last_seen_at=now - 60_000_000),
        TraceName(name="b", events=3, messages=2, last_seen_at=now),
    ]


async def test_names_come_page_by_page(queue: Broker) -> None:
    identifier = await a_message(queue)
    names = ["a", "ab", "b", "\N{HONEYBEE}", "é"]
    await queue.traces.record(identifier, "step", b"{}", names=names)

    pages: list[list[str]] = []
    after = ""
    while page := await queue.traces.names(after=after, limit=2):
        pages.append([found.name for found in page])
        after = page[-1].name

    assert pages == [["a", "ab"], ["b", "é"], ["\N{HONEYBEE}"]]


async def test_a_name_given_twice_counts_once(queue: Broker) -> None:
    identifier = await a_message(queue)

    await queue.traces.record(identifier, "step", b"{}", names=["a", "b", "a"])

    (event,) = await queue.traces.events(identifier)
    assert event.names == ("a", "b")
    assert [found.events for found in await queue.traces.names()] == [1, 1]


async def test_an_event_has_only_so_many_names(queue: Broker) -> None:
    identifier = await a_message(queue)
    names = [f"n{n}" for n in range(MAX_NAMES + 1)]

    with pytest.raises(Invalid, match="names"):
        await queue.traces.record(identifier, "step", b"{}", names=names)
    await queue.traces.record(identifier, "step", b"{}", names=names[1:])

    assert len(await queue.traces.names()) == MAX_NAMES
