"""What a commit promises: whole changes, dense offsets, the same bytes back."""

import asyncio

import pytest
from msgspec.structs import replace

from skep.model.change import (
    Applied,
    Capacity,
    Change,
    Commit,
    EntryUpdate,
    EntryVersion,
    Gone,
    QueueVersion,
    Reconfigured,
    Stale,
)
from skep.model.consumer import ConsumerState
from skep.model.name import SECOND
from skep.model.queue import Partition, Queue
from skep.model.segment import ENCRYPTED
from skep.store.protocol import Store
from skep.testing.clock import ManualClock
from tests.support.store_builders import (
    TRACE,
    UNKNOWN,
    Entry,
    append,
    append_ids,
    appended,
    bounds,
    columns,
    commit_one,
    consumer,
    entries,
    event,
    fresh,
    give_up,
    key,
    letters,
    make_partition,
    make_queue,
    payloads,
    push,
    push_ids,
    read_all,
    stale_update,
    update,
)

EVERY_BYTE = bytes(range(256))


async def test_a_commit_of_nothing_does_nothing(store: Store) -> None:
    done = await store.commit([])

    assert done == Commit([], [])


async def test_messages_get_offsets_from_zero_without_gaps(store: Store, alice: Partition) -> None:
    first = await appended(store, push(alice, b"a", b"b"))
    second = await appended(store, push(alice, b"c"))

    assert (first.offsets, second.offsets) == ([0, 1], [2])
    assert await payloads(store, alice) == [b"a", b"b", b"c"]


async def test_partitions_count_their_offsets_apart(
    store: Store, alice: Partition, bob: Partition
) -> None:
    await store.commit([push(alice, b"a1", b"a2"), push(bob, b"b1")])

    where = await appended(store, push(bob, b"b2"))

    assert where.offsets == [1]
    assert await payloads(store, alice) == [b"a1", b"a2"]
    assert await payloads(store, bob) == [b"b1", b"b2"]


async def test_appends_of_two_changes_to_one_partition_are_consecutive(
    store: Store, alice: Partition
) -> None:
    await appended(store, push(alice, b"before"))

    done = await store.commit([push(alice, b"a", b"b"), push(alice, b"c")])

    offsets = [o.appended[0].offsets for o in done.outcomes if isinstance(o, Applied)]
    assert offsets == [[1, 2], [3]]
    assert await payloads(store, alice) == [b"before", b"a", b"b", b"c"]


async def test_appends_of_one_change_are_answered_one_by_one_in_their_order(
    store: Store, alice: Partition, bob: Partition
) -> None:
    parts = [
        append(alice, columns(b"a1")),
        append(bob, columns(b"b1")),
        append(alice, columns(b"a2")),
    ]

    outcome = await commit_one(store, Change(appends=tuple(parts)))

    assert isinstance(outcome, Applied)
    assert [where.offsets for where in outcome.appended] == [[0], [0], [1]]
    assert await payloads(store, alice) == [b"a1", b"a2"]


async def test_commits_at_the_same_time_get_different_offsets(
    store: Store, alice: Partition
) -> None:
    changes = [push(alice, b"%d" % n) for n in range(20)]

    found = await asyncio.gather(*(appended(store, change) for change in changes))

    offsets = [where.offsets[0] for where in found]
    assert sorted(offsets) == list(range(20))
    assert await payloads(store, alice) == [b"%d" % offsets.index(at) for at in range(20)]


async def test_a_refused_change_does_not_stop_the_others(store: Store, alice: Partition) -> None:
    refused = Change(appends=(append(alice, columns(b"no")),), consumers=(stale_update(alice),))

    done = await store.commit([push(alice, b"first"), refused, push(alice, b"last")])

    assert [type(outcome) for outcome in done.outcomes] == [Applied, Stale, Applied]
    assert await payloads(store, alice) == [b"first", b"last"]


async def test_nothing_of_a_refused_change_is_written(
    store: Store, orders: Queue, alice: Partition, bob: Partition
) -> None:
    await appended(store, push(alice, b"old"))
    refused = Change(
        appends=(append_ids(bob, "new"),),
        consumers=(update(alice, 0, ConsumerState(version=1)), stale_update(alice)),
        dead_letters=(give_up(alice, 0),),
        traces=(event(alice, 0, "story"),),
        key=key(),
    )

    outcome = await commit_one(store, refused)

    assert outcome == Stale()
    assert await fresh(store, bob) == bob
    assert await store.find_offset(bob.number, "new") is None
    assert await store.heads(orders.number) == {store.lane: 1}
    assert await consumer(store, alice) is None
    assert await letters(store, orders) == []
    assert await store.trace_events(alice.number, 0) == []
    assert await store.find_outcome(key()) is None


async def test_everything_that_an_applied_change_holds_is_written_together(
    store: Store, orders: Queue, alice: Partition, bob: Partition
) -> None:
    await appended(store, push(alice, b"old"))
    transaction = Change(
        appends=(append_ids(bob, "new"),),
        consumers=(update(alice, 0, ConsumerState(version=1, cursor=1)),),
        dead_letters=(give_up(alice, 0),),
        traces=(event(alice, 0, "story"),),
        key=key(),
    )

    outcome = await commit_one(store, transaction)

    assert isinstance(outcome, Applied)
    assert await payloads(store, bob) == [b"new"]
    assert await consumer(store, alice) == ConsumerState(version=1, cursor=1)
    assert [letter.payload for letter in await letters(store, orders)] == [b"old"]
    assert len(await store.trace_events(alice.number, 0)) == 1
    assert await store.find_outcome(key()) is not None


async def test_an_append_to_a_partition_that_is_not_there_is_gone_with_its_whole_change(
    store: Store, orders: Queue, alice: Partition
) -> None:
    nowhere = Partition(number=UNKNOWN, queue=orders.number, name="x", created_at=0)
    change = Change(appends=(append(alice, columns(b"a")), append(nowhere, columns(b"b"))))

    outcome = await commit_one(store, change)

    assert outcome == Gone()
    assert await payloads(store, alice) == []


async def test_an_append_that_names_the_wrong_queue_is_gone(store: Store, alice: Partition) -> None:
    other = await make_queue(store, "other")
    astray = Partition(number=alice.number, queue=other.number, name="alice", created_at=0)

    outcome = await commit_one(store, push(astray, b"a"))

    assert outcome == Gone()
    assert await payloads(store, alice) == []


async def test_an_append_of_no_messages_leaves_no_trace(
    store: Store, orders: Queue, alice: Partition
) -> None:
    await appended(store, push(alice, b"a"))
    before = await fresh(store, alice)

    done = await store.commit([push(alice), push_ids(alice)])

    assert done.segments == []
    assert await fresh(store, alice) == before
    assert bounds(await read_all(store, alice)) == [(0, 1)]
    assert bounds(await store.read_journal(orders.number, store.lane, 0, limit=9)) == [(0, 1)]


async def test_a_commit_returns_the_segments_that_reading_returns(
    store: Store, alice: Partition, bob: Partition
) -> None:
    made = columns(b"a", b"b", ids=["1", None], traces=[TRACE, None], producers=[None, "p"])

    done = await store.commit([Change(appends=(append(alice, made),)), push(bob, b"c")])

    kept = [*await read_all(store, alice), *await read_all(store, bob)]
    assert [
        (s.queue, s.partition, s.start, s.end, s.created_at, s.lane, s.position, s.size)
        for s in done.segments
    ] == [
        (s.queue, s.partition, s.start, s.end, s.created_at, s.lane, s.position, s.size)
        for s in kept
    ]
    assert [list(s.columns.payloads) for s in done.segments] == [[b"a", b"b"], [b"c"]]


async def test_a_large_append_is_cut_into_segments_and_stays_dense(
    store: Store, alice: Partition
) -> None:
    numbers = [b"%d" % n for n in range(2500)]

    where = await appended(store, push(alice, *numbers))

    segments = await read_all(store, alice)
    assert where.offsets == list(range(2500))
    assert len(segments) > 1
    assert [s.start for s in segments[1:]] == [s.end for s in segments[:-1]]
    assert await payloads(store, alice) == numbers


async def test_a_heavy_append_is_cut_so_that_a_small_read_stays_small(
    store: Store, alice: Partition
) -> None:
    heavy = [bytes([n]) * 600_000 for n in range(5)]

    await appended(store, push(alice, *heavy))

    (segment,) = await store.read(alice.number, 3, messages=1, size=1)
    assert segment.size < 1_200_000
    assert await payloads(store, alice) == heavy


async def test_the_columns_of_a_cut_append_stay_with_their_messages(
    store: Store, alice: Partition
) -> None:
    rows = [
        Entry(n, b"%d" % n, f"id{n}", n.to_bytes(16, "big") if n % 3 else None, f"p{n % 2}", n % 2)
        for n in range(1500)
    ]
    made = columns(
        *(row.payload for row in rows),
        ids=[row.chosen_id for row in rows],
        traces=[row.trace for row in rows],
        producers=[row.producer for row in rows],
        flags=bytes(row.flag for row in rows),
    )

    await appended(store, Change(appends=(append(alice, made),)))

    assert await entries(store, alice) == rows


@pytest.mark.parametrize(
    "payload",
    [b"", b"\x00", b"\x00a\x00", b"\xff\xfe", EVERY_BYTE, EVERY_BYTE * 4096, b"x" * 1_500_000],
    ids=["empty", "nul", "nuls", "not utf-8", "every byte", "1 MB", "over a segment"],
)
async def test_a_payload_comes_back_byte_for_byte(
    store: Store, alice: Partition, payload: bytes
) -> None:
    await appended(store, push(alice, b"before", payload, b"after"))

    assert await payloads(store, alice) == [b"before", payload, b"after"]


async def test_what_a_message_does_not_have_is_none_beside_others_that_do(
    store: Store, alice: Partition
) -> None:
    made = columns(
        b"a",
        b"b",
        b"c",
        ids=[None, "i", None],
        traces=[TRACE, None, None],
        producers=["p", None, None],
    )

    await appended(store, Change(appends=(append(alice, made),)))

    assert await entries(store, alice) == [
        Entry(0, b"a", None, TRACE, "p"),
        Entry(1, b"b", "i", None, None),
        Entry(2, b"c", None, None, None),
    ]


async def test_appends_with_and_without_a_column_go_together_into_one_commit(
    store: Store, alice: Partition
) -> None:
    full = columns(b"b", ids=["i"], traces=[TRACE], producers=["p"], flags=bytes([ENCRYPTED]))

    await store.commit(
        [push(alice, b"a"), Change(appends=(append(alice, full),)), push(alice, b"c")]
    )

    assert await entries(store, alice) == [
        Entry(0, b"a"),
        Entry(1, b"b", "i", TRACE, "p", ENCRYPTED),
        Entry(2, b"c"),
    ]


@pytest.mark.parametrize("text", ["Ünïcödé", "数字", "😀", "e\u0301", "a\x00b", "x" * 255, " "])
async def test_ids_and_producers_are_any_text(store: Store, alice: Partition, text: str) -> None:
    made = columns(b"a", b"b", ids=[text, "other"], producers=["p", text])

    await appended(store, Change(appends=(append(alice, made),)))

    assert await entries(store, alice) == [
        Entry(0, b"a", text, None, "p"),
        Entry(1, b"b", "other", None, text),
    ]
    assert await store.find_offset(alice.number, text) == 0


async def test_messages_carry_the_time_of_the_stores_clock(
    store: Store, clock: ManualClock, alice: Partition
) -> None:
    await appended(store, push(alice, b"a"))
    clock.advance(7)
    await appended(store, push(alice, b"b"))

    times = [segment.created_at for segment in await read_all(store, alice)]

    assert times == [clock.now() - 7_000_000, clock.now()]


async def test_a_partition_knows_its_end_and_when_it_was_first_and_last_pushed_to(
    store: Store, clock: ManualClock, alice: Partition
) -> None:
    began = clock.now()

    await appended(store, push(alice, b"a", b"b"))
    clock.advance(5)
    await appended(store, push(alice, b"c"))

    known = await fresh(store, alice)
    assert (known.start, known.end) == (0, 3)
    assert (known.first_at, known.newest_at) == (began, clock.now())
    assert (known.name, known.created_at) == ("alice", began)


@pytest.mark.parametrize("chosen", [None, "id"], ids=["without ids", "with ids"])
async def test_a_clock_that_was_set_back_makes_no_message_older_than_the_one_before(
    store: Store, alice: Partition, bob: Partition, clock: ManualClock, chosen: str | None
) -> None:
    def pushed(partition: Partition, number: int) -> Change:
        chosen_id = chosen and f"{chosen}{number}"
        return push_ids(partition, chosen_id) if chosen_id else push(partition, b"x")

    late = clock.now()
    await appended(store, pushed(alice, 1))
    clock.set(late - 3600 * SECOND)
    for number in (2, 3):
        await appended(store, pushed(alice, number))
    await appended(store, pushed(bob, 1))
    clock.set(late + SECOND)
    await appended(store, pushed(alice, 4))

    times = [segment.created_at for segment in await read_all(store, alice)]
    (other,) = await read_all(store, bob)
    assert times == [late, late, late, late + SECOND]
    assert other.created_at == late - 3600 * SECOND
    assert (await fresh(store, alice)).newest_at == late + SECOND


async def test_a_commit_to_many_partitions_reaches_each(store: Store, orders: Queue) -> None:
    many = await store.create_partitions(orders.number, [f"p{n}" for n in range(50)])

    done = await store.commit([push(partition, partition.name.encode()) for partition in many])

    assert [type(outcome) for outcome in done.outcomes] == [Applied] * 50
    assert [await payloads(store, p) for p in many] == [[p.name.encode()] for p in many]


async def test_a_partition_made_after_a_commit_starts_at_zero(
    store: Store, orders: Queue, alice: Partition
) -> None:
    await appended(store, push(alice, b"a"))

    late = await make_partition(store, orders, "late")

    assert (await appended(store, push(late, b"x"))).offsets == [0]


async def test_a_change_with_a_row_that_is_not_in_the_outbox_is_stale(
    store: Store, alice: Partition
) -> None:
    change = replace(push(alice, b"a"), outbox=(7,))

    done = await store.commit([change])

    assert done.outcomes == [Stale()]
    assert await payloads(store, alice) == []


async def test_room_counts_what_the_same_commit_appended_before(
    store: Store, orders: Queue, alice: Partition
) -> None:
    unlimited = push(alice, b"1")
    none_since = Change(capacity=(Capacity(orders.number, 0, 0),))

    commit = await store.commit([unlimited, none_since])

    assert isinstance(commit.outcomes[0], Applied)
    assert commit.outcomes[1] == Stale()


async def test_a_change_is_refused_if_a_queue_was_configured_since(
    store: Store, orders: Queue, alice: Partition
) -> None:
    basis = (QueueVersion(orders.number, orders.version),)
    await store.put_queue(orders)

    refused = await commit_one(store, replace(push(alice, b"1"), queues=basis))
    gone = await commit_one(store, replace(push(alice, b"1"), queues=(QueueVersion(UNKNOWN, 1),)))

    assert (refused, gone) == (Reconfigured(), Gone())
    assert await payloads(store, alice) == []


async def test_a_change_is_stale_if_an_entry_it_relied_on_has_changed(
    store: Store, alice: Partition
) -> None:
    absent = (EntryVersion("mode", "k", 0),)
    put = Change(entries=(EntryUpdate(space="mode", key="k", value=b"on"),))

    before = await commit_one(store, replace(push(alice, b"1"), based_on=absent))
    await commit_one(store, put)
    after = await commit_one(store, replace(push(alice, b"2"), based_on=absent))
    (entry,) = await store.find_entries("mode", ["k"])
    present = (EntryVersion("mode", "k", entry.version),)
    again = await commit_one(store, replace(push(alice, b"3"), based_on=present))

    assert (type(before), after, type(again)) == (Applied, Stale(), Applied)
    assert await payloads(store, alice) == [b"1", b"3"]
