"""The journal: everything committed to a queue, in order, at positions without gaps."""

import pytest

from skep.model.change import Change
from skep.model.journal import Range, SegmentPlace
from skep.model.queue import Partition, Queue
from skep.model.segment import DELETED, Segment
from skep.store.protocol import Store
from tests.support.store_builders import (
    UNKNOWN,
    append,
    appended,
    columns,
    first_payloads,
    make_partition,
    make_queue,
    push,
    push_each,
    push_ids,
    stale_update,
    truncate_all,
)


@pytest.fixture
async def journal(store: Store, orders: Queue, alice: Partition, bob: Partition) -> Queue:
    """A queue with segments a0 (2 messages), b0 (3), a2 (1), b3 (4): 10 in all."""
    await appended(store, push(alice, b"a0", b"a1"))
    await appended(store, push(bob, b"b0", b"b1", b"b2"))
    await appended(store, push(alice, b"a2"))
    await appended(store, push(bob, b"b3", b"b4", b"b5", b"b6"))
    return orders


async def forwards(store: Store, queue: Queue, position: int, limit: int = 99) -> list[Segment]:
    return await store.read_journal(queue.number, store.lane, position, limit=limit)


async def backwards(store: Store, queue: Queue, position: int, limit: int = 99) -> list[Segment]:
    return await store.read_journal(queue.number, store.lane, position, limit=limit, backwards=True)


async def test_a_queue_without_messages_has_no_head(store: Store, orders: Queue) -> None:
    assert await store.heads(orders.number) == {}
    assert await store.heads(UNKNOWN) == {}


async def test_the_head_counts_the_messages_of_all_partitions(store: Store, journal: Queue) -> None:
    assert await store.heads(journal.number) == {store.lane: 10}


async def test_the_head_does_not_count_duplicates_nor_refused_changes(
    store: Store, orders: Queue, alice: Partition
) -> None:
    await appended(store, push_ids(alice, "a", "b"))
    refused = Change(appends=(append(alice, columns(b"x")),), consumers=(stale_update(alice),))

    await store.commit([refused, push_ids(alice, "b", "c"), push_ids(alice, "a")])

    assert await store.heads(orders.number) == {store.lane: 3}


async def test_each_queue_has_a_journal_of_its_own(store: Store, journal: Queue) -> None:
    other = await make_queue(store, "other")
    there = await make_partition(store, other)

    await store.commit([push(there, b"x", b"y")])

    assert await store.heads(other.number) == {store.lane: 2}
    assert await store.heads(journal.number) == {store.lane: 10}
    assert first_payloads(await forwards(store, other, 0)) == [b"x"]
    assert len(await forwards(store, journal, 0)) == 4


async def test_positions_lie_one_behind_the_other_across_partitions_and_cuts(
    store: Store, orders: Queue, alice: Partition, bob: Partition
) -> None:
    other = await make_partition(store, await make_queue(store, "other"))
    await store.commit(
        [push(alice, *[b"a"] * 1500), push(other, b"x"), push(bob, b"b"), push(alice, b"c")]
    )
    await store.commit([push(bob, b"d", b"e"), push(alice, b"f")])

    found = await forwards(store, orders, 0)

    ends = [segment.position + len(segment.columns) for segment in found]
    assert [segment.position for segment in found] == [0, *ends[:-1]]
    assert await store.heads(orders.number) == {store.lane: ends[-1]}
    assert ends[-1] == 1505


async def test_forwards_it_is_in_the_order_of_commits(store: Store, journal: Queue) -> None:
    found = await forwards(store, journal, 0)

    assert first_payloads(found) == [b"a0", b"b0", b"a2", b"b3"]
    assert [segment.position for segment in found] == [0, 2, 5, 6]
    assert {segment.lane for segment in found} == {store.lane}


async def test_forwards_from_within_a_segment_begins_with_that_segment(
    store: Store, journal: Queue
) -> None:
    found = [await forwards(store, journal, position, 1) for position in range(11)]

    assert [b"".join(first_payloads(segments)).decode() for segments in found] == (
        ["a0"] * 2 + ["b0"] * 3 + ["a2"] + ["b3"] * 4 + [""]
    )


async def test_forwards_from_beyond_the_head_is_nothing(store: Store, journal: Queue) -> None:
    assert await forwards(store, journal, 11) == []
    assert await forwards(store, journal, 1 << 40) == []


async def test_reading_on_from_the_end_of_each_answer_meets_every_segment_once(
    store: Store, journal: Queue
) -> None:
    met: list[bytes] = []
    position = 0

    while found := await forwards(store, journal, position, 1):
        met += found[0].columns.payloads
        position = found[0].position + len(found[0].columns)

    assert met == [b"a0", b"a1", b"b0", b"b1", b"b2", b"a2", b"b3", b"b4", b"b5", b"b6"]


async def test_what_lies_between_two_positions_is_the_same_however_much_is_committed_after(
    store: Store, journal: Queue, alice: Partition
) -> None:
    before = first_payloads(await forwards(store, journal, 2, 3))

    await push_each(store, alice, b"later", b"still later")

    assert first_payloads(await forwards(store, journal, 2, 3)) == before
    assert first_payloads(await forwards(store, journal, 10)) == [b"later", b"still later"]


async def test_backwards_it_is_newest_first(store: Store, journal: Queue) -> None:
    found = await backwards(store, journal, 10)

    assert first_payloads(found) == [b"b3", b"a2", b"b0", b"a0"]
    assert first_payloads(await backwards(store, journal, 10, 2)) == [b"b3", b"a2"]


async def test_backwards_begins_with_the_segment_that_holds_the_message_before(
    store: Store, journal: Queue
) -> None:
    found = [await backwards(store, journal, position, 1) for position in range(12)]

    assert [b"".join(first_payloads(segments)).decode() for segments in found] == (
        [""] + ["a0"] * 2 + ["b0"] * 3 + ["a2"] + ["b3"] * 5
    )


async def test_both_ways_meet_the_same_segments(store: Store, journal: Queue) -> None:
    ahead = await forwards(store, journal, 0)

    back = await backwards(store, journal, 10)

    assert [s.position for s in back] == [s.position for s in reversed(ahead)]


async def test_a_lane_that_nobody_committed_through_is_empty(store: Store, journal: Queue) -> None:
    lane = store.lane + 1

    assert await store.read_journal(journal.number, lane, 0, limit=9) == []
    assert await store.read_journal(journal.number, lane, 10, limit=9, backwards=True) == []


async def test_the_journal_of_an_unknown_queue_is_empty(store: Store, journal: Queue) -> None:
    assert await store.read_journal(UNKNOWN, store.lane, 0, limit=9) == []
    assert await store.read_journal(UNKNOWN, store.lane, 9, limit=9, backwards=True) == []


async def test_what_was_truncated_is_left_out_both_ways(
    store: Store, journal: Queue, bob: Partition
) -> None:
    await truncate_all(store, bob, 3)

    ahead = [first_payloads(await forwards(store, journal, position)) for position in (0, 2, 4, 5)]

    assert ahead == [[b"a0", b"a2", b"b3"], *[[b"a2", b"b3"]] * 3]
    assert first_payloads(await backwards(store, journal, 10)) == [b"b3", b"a2", b"a0"]
    assert first_payloads(await backwards(store, journal, 4)) == [b"a0"]


async def test_truncation_does_not_move_the_head_nor_positions(
    store: Store, journal: Queue, alice: Partition, bob: Partition
) -> None:
    await truncate_all(store, alice, 3)
    await truncate_all(store, bob, 7)

    await appended(store, push(alice, b"a3"))

    assert await store.heads(journal.number) == {store.lane: 11}
    assert [(s.position, s.start) for s in await forwards(store, journal, 0)] == [(10, 3)]


async def test_a_deleted_message_keeps_its_position(
    store: Store, journal: Queue, bob: Partition
) -> None:
    await store.delete_message(bob.queue, bob.number, 1)

    _, segment, *_ = await forwards(store, journal, 0)

    assert list(segment.columns.payloads) == [b"b0", b"", b"b2"]
    assert segment.flag(1) == DELETED
    assert (segment.position, await store.heads(journal.number)) == (2, {store.lane: 10})


# Places.


async def places(store: Store, queue: Queue, position: int, limit: int = 99) -> list[SegmentPlace]:
    return await store.read_places(queue.number, store.lane, position, limit=limit)


@pytest.mark.parametrize("position", range(11))
@pytest.mark.parametrize("limit", [1, 2, 99])
async def test_places_are_those_of_the_segments_that_are_read(
    store: Store, journal: Queue, position: int, limit: int
) -> None:
    segments = await forwards(store, journal, position, limit)

    found = await places(store, journal, position, limit)

    assert [(each.stands, each.size, each.created_at) for each in found] == [
        (
            Range(store.lane, segment.position, segment.position + len(segment.columns)),
            segment.size,
            segment.created_at,
        )
        for segment in segments
    ]


async def test_a_place_names_the_one_before_it_in_its_partition(
    store: Store, journal: Queue
) -> None:
    lane = store.lane

    found = await places(store, journal, 0)

    before = [None, None, Range(lane, 0, 2), Range(lane, 2, 5)]
    assert [each.before for each in found] == before


async def test_what_was_removed_is_before_nothing(
    store: Store, journal: Queue, alice: Partition
) -> None:
    await store.truncate(journal.number, alice.number, 2, kind="retention")

    found = await places(store, journal, 0)

    assert [each.before for each in found] == [None, None, Range(store.lane, 2, 5)]


async def test_a_queue_or_lane_that_is_not_there_has_no_places(
    store: Store, journal: Queue
) -> None:
    assert await store.read_places(UNKNOWN, store.lane, 0, limit=9) == []
    assert await store.read_places(journal.number, store.lane + 9, 0, limit=9) == []
    assert await places(store, journal, 10) == []
