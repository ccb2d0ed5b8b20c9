"""Trace events: found by message and by name, gone with their message."""

import pytest

from skep.model.change import Change
from skep.model.name import SECOND
from skep.model.queue import Partition
from skep.model.trace import TraceEvent, TraceName
from skep.store.protocol import Store
from skep.testing.clock import ManualClock
from tests.support.store_builders import UNKNOWN, event, push_each, stale_update, truncate_all


@pytest.fixture
async def messages(store: Store, alice: Partition) -> Partition:
    """A partition with four messages."""
    await push_each(store, alice, b"0", b"1", b"2", b"3")
    return alice


async def record(store: Store, *events: TraceEvent) -> None:
    """Each in a commit of its own."""
    for one in events:
        await store.commit([Change(traces=(one,))])


async def kinds_named(store: Store, name: str) -> list[str]:
    return [found.kind for found in await store.named_events(name, limit=99)]


async def test_an_event_comes_back_with_a_number_and_the_time_of_the_stores_clock(
    store: Store, clock: ManualClock, messages: Partition
) -> None:
    told = TraceEvent(
        number=77,
        partition=messages.number,
        offset=1,
        kind="step",
        data=b'\x00{"n":1}\xff',
        names=("größe", "b"),
        group="g",
        worker="w",
        created_at=5,
    )

    await record(store, told)

    (found,) = await store.trace_events(messages.number, 1)
    assert found == TraceEvent(
        number=found.number,
        partition=messages.number,
        offset=1,
        kind="step",
        data=b'\x00{"n":1}\xff',
        names=("größe", "b"),
        group="g",
        worker="w",
        created_at=clock.now(),
    )
    assert await store.named_events("größe", limit=9) == [found]


async def test_what_an_event_does_not_have_is_none(store: Store, messages: Partition) -> None:
    await record(store, event(messages, 0, data=b""))

    (found,) = await store.trace_events(messages.number, 0)
    assert (found.group, found.worker, found.names, found.data) == (None, None, (), b"")


async def test_the_events_of_a_message_are_its_own_oldest_first(
    store: Store, messages: Partition, bob: Partition
) -> None:
    await push_each(store, bob, b"0", b"1")
    await record(store, *(event(messages, 1, kind=kind) for kind in ("z", "y", "x")))

    await record(store, event(messages, 0, kind="before"), event(messages, 2, kind="after"))
    await record(store, event(bob, 1, kind="elsewhere"))

    found = await store.trace_events(messages.number, 1)
    assert [one.kind for one in found] == ["z", "y", "x"]
    assert [one.number for one in found] == sorted(one.number for one in found)
    assert await store.trace_events(messages.number, 3) == []
    assert await store.trace_events(UNKNOWN, 0) == []


async def test_events_of_one_change_keep_their_order(store: Store, messages: Partition) -> None:
    told = tuple(event(messages, 0, "story", kind=kind) for kind in ("a", "b", "c"))

    await store.commit([Change(traces=told)])

    assert [e.kind for e in await store.trace_events(messages.number, 0)] == ["a", "b", "c"]
    assert await kinds_named(store, "story") == ["c", "b", "a"]


async def test_a_refused_change_records_no_events(store: Store, messages: Partition) -> None:
    await store.commit(
        [Change(traces=(event(messages, 0, "story"),), consumers=(stale_update(messages),))]
    )

    assert await store.trace_events(messages.number, 0) == []
    assert await store.named_events("story", limit=9) == []
    assert await store.trace_names(limit=9) == []


async def test_a_name_ties_events_of_different_messages_together_newest_first(
    store: Store, messages: Partition, bob: Partition
) -> None:
    await push_each(store, bob, b"0")

    await record(
        store,
        event(messages, 2, "story", kind="first"),
        event(bob, 0, "story", kind="second"),
        event(messages, 0, "story", kind="third"),
    )

    assert await kinds_named(store, "story") == ["third", "second", "first"]
    assert await kinds_named(store, "another") == []


async def test_an_event_is_found_under_each_of_its_names(store: Store, messages: Partition) -> None:
    await record(store, event(messages, 0, "a", "b"))

    found = [await store.named_events(name, limit=9) for name in ("a", "b")]

    assert found == [await store.trace_events(messages.number, 0)] * 2


async def test_names_that_begin_alike_are_different_names(
    store: Store, messages: Partition
) -> None:
    await record(
        store,
        event(messages, 0, "order", kind="short"),
        event(messages, 0, "order-1", kind="long"),
        event(messages, 0, "Order", kind="capital"),
    )

    found = [await kinds_named(store, name) for name in ("order", "order-1", "Order", "ord")]

    assert found == [["short"], ["long"], ["capital"], []]


async def test_pages_of_a_name_go_on_below_a_number(store: Store, messages: Partition) -> None:
    await record(store, *(event(messages, n % 4, "story", kind=f"{n}") for n in range(7)))

    pages: list[list[str]] = []
    before: int | None = None
    while page := await store.named_events("story", before=before, limit=3):
        pages.append([one.kind for one in page])
        before = page[-1].number

    assert pages == [["6", "5", "4"], ["3", "2", "1"], ["0"]]


async def test_names_are_listed_in_order_with_what_stands_behind_them(
    store: Store, clock: ManualClock, messages: Partition
) -> None:
    await record(store, event(messages, 0, "b", "a"), event(messages, 1, "b"))
    clock.advance(10)
    await record(store, event(messages, 1, "b"), event(messages, 0, "größe"))

    found = await store.trace_names(limit=9)

    noon = clock.now() - 10 * SECOND
    assert found == [
        TraceName(name="a", events=1, messages=1, last_seen_at=noon),
        TraceName(name="b", events=3, messages=2, last_seen_at=clock.now()),
        TraceName(name="größe", events=1, messages=1, last_seen_at=clock.now()),
    ]


async def test_a_name_that_an_event_carries_twice_counts_once(
    store: Store, messages: Partition
) -> None:
    await record(store, event(messages, 0, "a", "a"))

    assert [found.events for found in await store.trace_names(limit=9)] == [1]
    assert len(await store.named_events("a", limit=9)) == 1


async def test_pages_of_names_go_on_after_a_name(store: Store, messages: Partition) -> None:
    names = ["a", "a!", "aa", "b", "z", "ä", "😀"]
    await record(store, *(event(messages, 0, name) for name in reversed(names)))

    pages: list[list[str]] = []
    after = ""
    while page := await store.trace_names(after=after, limit=3):
        pages.append([found.name for found in page])
        after = page[-1].name

    assert pages == [names[:3], names[3:6], names[6:]]


async def test_an_event_goes_with_its_message_and_its_name_with_the_last_event(
    store: Store, messages: Partition
) -> None:
    await record(
        store, event(messages, 0, "old"), event(messages, 1, "both"), event(messages, 3, "both")
    )

    await truncate_all(store, messages, 2)

    assert [found.name for found in await store.trace_names(limit=9)] == ["both"]
    assert [found.offset for found in await store.named_events("both", limit=9)] == [3]
    assert await store.named_events("old", limit=9) == []


async def test_an_event_of_a_message_that_is_not_kept_is_not_recorded(
    store: Store, messages: Partition
) -> None:
    await truncate_all(store, messages, 2)

    await record(store, event(messages, 0, "gone"), event(messages, 9, "never"))

    assert await store.trace_names(limit=9) == []
    assert await store.trace_events(messages.number, 0) == []
