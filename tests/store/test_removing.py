"""How messages, groups of them and whole queues leave, and what stays."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest

from skep.model.change import Applied, Change, Gone
from skep.model.consumer import ConsumerState
from skep.model.dead_letter import DeadLetterFilter
from skep.model.name import SECOND, Offset
from skep.model.queue import Partition, Queue, Removal, Subscription
from skep.model.segment import DELETED, ENCRYPTED
from skep.store.protocol import Store, StoredConsumer, Truncation
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
    crowd,
    entries,
    event,
    fresh,
    give_up,
    key,
    letters,
    make_partition,
    make_queue,
    payloads,
    placed,
    purge_all,
    push,
    push_each,
    push_ids,
    read_all,
    truncate_all,
    update,
)


async def truncate(
    store: Store, partition: Partition, before: int, kind: str = "age"
) -> Truncation:
    return await store.truncate(partition.queue, partition.number, before, kind=kind)


async def delete(store: Store, partition: Partition, offset: int) -> bool:
    return await store.delete_message(partition.queue, partition.number, offset)


# Truncation.


async def test_truncation_removes_whole_segments_only(store: Store, alice: Partition) -> None:
    await store.commit([push(alice, b"a", b"b", b"c")])
    await store.commit([push(alice, b"d", b"e")])

    removed = [(await truncate(store, alice, before)).messages for before in (2, 4)]

    assert removed == [0, 3]
    assert bounds(await read_all(store, alice)) == [(3, 5)]


async def test_truncation_at_the_end_of_a_segment_removes_it(
    store: Store, alice: Partition
) -> None:
    await push_each(store, alice, b"a", b"b", b"c")

    removed = await truncate(store, alice, 2)

    assert removed.messages == 2
    assert await entries(store, alice) == [Entry(2, b"c")]


async def test_truncation_moves_the_start_and_the_time_of_the_oldest_message(
    store: Store, clock: ManualClock, alice: Partition
) -> None:
    for payload in (b"a", b"b", b"c"):
        clock.advance(1)
        await push_each(store, alice, payload)

    await truncate(store, alice, 1)

    known = await fresh(store, alice)
    assert (known.start, known.end) == (1, 3)
    assert (known.first_at, known.newest_at) == (clock.now() - SECOND, clock.now())


async def test_a_partition_that_was_emptied_goes_on_where_it_was(
    store: Store, clock: ManualClock, alice: Partition
) -> None:
    await push_each(store, alice, b"a", b"b")
    await truncate_all(store, alice, 2)
    emptied = await fresh(store, alice)
    clock.advance(9)

    where = await appended(store, push(alice, b"c"))

    assert (emptied.start, emptied.end, emptied.first_at) == (2, 2, 0)
    assert where.offsets == [2]
    again = await fresh(store, alice)
    assert (again.start, again.end, again.first_at) == (2, 3, clock.now())


async def test_truncation_beyond_the_end_removes_what_there_is_and_no_offsets(
    store: Store, alice: Partition
) -> None:
    await push_each(store, alice, b"a", b"b")

    removed = await truncate(store, alice, 1000)

    assert removed.messages == 2
    assert (await appended(store, push(alice, b"c"))).offsets == [2]


async def test_truncation_leaves_other_partitions_alone(
    store: Store, orders: Queue, alice: Partition, bob: Partition
) -> None:
    last = await make_partition(store, orders, "last")
    for partition in (alice, bob, last):
        await appended(store, push_ids(partition, "x"))

    await truncate_all(store, bob, 1)

    assert [await payloads(store, p) for p in (alice, bob, last)] == [[b"x"], [], [b"x"]]
    assert await store.find_offset(alice.number, "x") == 0
    assert await store.find_offset(last.number, "x") == 0


async def test_one_truncation_removes_a_bounded_number_and_the_next_goes_on(
    store: Store, alice: Partition
) -> None:
    await push_each(store, alice, *[b"x"] * 350)

    steps = await truncate_all(store, alice, 340)

    assert sum(steps) == 340
    assert len(steps) > 1
    assert (await fresh(store, alice)).start == 340
    assert len(await read_all(store, alice)) == 10


async def test_between_two_steps_of_a_truncation_the_partition_is_in_order(
    store: Store, clock: ManualClock, alice: Partition
) -> None:
    for _ in range(150):
        await push_each(store, alice, b"x")
        clock.advance(1)

    removed = await truncate(store, alice, 140)

    known, first = await fresh(store, alice), (await read_all(store, alice))[0]
    assert 0 < removed.messages < 140
    assert (known.start, known.first_at) == (first.start, first.created_at)
    assert first.start == removed.messages


async def test_the_ids_of_truncated_messages_are_free_again(store: Store, alice: Partition) -> None:
    await appended(store, push_ids(alice, "a", "b"))
    await appended(store, push_ids(alice, "c"))
    await truncate_all(store, alice, 2)

    where = await appended(store, push_ids(alice, "a", "c"))

    assert where == placed(alice, [3, 2], [1])
    assert await store.find_offset(alice.number, "b") is None


async def test_truncated_messages_are_forgotten_by_their_traces(
    store: Store, alice: Partition
) -> None:
    traced = Change(appends=(append(alice, columns(b"a", traces=[TRACE])),))
    await appended(store, traced)
    await appended(store, traced)
    await store.commit([Change(traces=(event(alice, 0, "story"), event(alice, 1, "story")))])

    await truncate_all(store, alice, 1)

    assert await store.find_trace(TRACE, limit=9) == [(alice.number, 1)]
    assert await store.trace_events(alice.number, 0) == []
    assert [e.offset for e in await store.named_events("story", limit=9)] == [1]
    assert [(n.name, n.events) for n in await store.trace_names(limit=9)] == [("story", 1)]


async def test_truncating_nothing_is_a_removal_of_zero_that_is_not_recorded(
    store: Store, orders: Queue, alice: Partition
) -> None:
    await push_each(store, alice, b"a")

    removed = await truncate(store, alice, 0)

    assert removed.messages == 0
    assert await store.removals(orders.number, limit=9) == []
    assert (await store.truncate(orders.number, UNKNOWN, 5, kind="age")).messages == 0


async def test_the_history_tells_what_was_removed_newest_first(
    store: Store, clock: ManualClock, orders: Queue, alice: Partition, bob: Partition
) -> None:
    await push_each(store, alice, b"a", b"b", b"c")
    await push_each(store, bob, b"d")

    await truncate(store, alice, 1, "retention")
    clock.advance(1)
    await truncate(store, bob, 1, "completed_retention")
    await truncate(store, alice, 3, "retention")

    def removal(partition: Partition, kind: str, messages: int, executed_at: int) -> Removal:
        return Removal(
            queue=orders.number,
            partition=partition.number,
            kind=kind,
            messages=messages,
            executed_at=executed_at,
        )

    now = clock.now()
    expected = [
        removal(alice, "retention", 2, now),
        removal(bob, "completed_retention", 1, now),
        removal(alice, "retention", 1, now - SECOND),
    ]
    assert await store.removals(orders.number, limit=9) == expected
    assert await store.removals(orders.number, limit=2) == expected[:2]


async def test_a_truncation_returns_where_the_partition_starts_whoever_moved_it(
    store: Store, clock: ManualClock, alice: Partition
) -> None:
    await push_each(store, alice, b"a", b"b")
    clock.advance(1)
    await push_each(store, alice, b"c")

    first = await truncate(store, alice, 2)
    again = await truncate(store, alice, 2)

    assert (first.messages, first.start, first.first_at) == (2, 2, clock.now())
    assert (again.messages, again.start, again.first_at) == (0, 2, clock.now())


async def test_a_line_of_history_may_be_written_for_what_left_by_another_way(
    store: Store, orders: Queue, alice: Partition
) -> None:
    other = await make_queue(store, "other")
    line = Removal(
        queue=orders.number, partition=alice.number, kind="eviction", messages=7, executed_at=3
    )

    await store.record_removal(line)

    assert await store.removals(orders.number, limit=9) == [line]
    assert await store.removals(other.number, limit=9) == []


async def test_no_line_of_history_is_written_for_a_queue_that_is_gone(
    store: Store, orders: Queue, alice: Partition
) -> None:
    await store.delete_queue(orders.number)

    await store.record_removal(
        Removal(
            queue=orders.number, partition=alice.number, kind="evicted", messages=3, executed_at=1
        )
    )

    assert await store.removals(orders.number, limit=10) == []


async def test_old_lines_of_history_are_forgotten_oldest_first_and_some_at_a_time(
    store: Store, orders: Queue, alice: Partition
) -> None:
    lines = [
        Removal(queue=orders.number, partition=alice.number, kind="age", messages=1, executed_at=n)
        for n in range(5)
    ]
    for line in lines:
        await store.record_removal(line)

    forgotten = [await store.forget_removals(orders.number, 3, limit=2) for _ in range(3)]

    assert forgotten == [2, 1, 0]
    assert await store.removals(orders.number, limit=9) == [lines[4], lines[3]]
    assert await store.forget_removals(UNKNOWN, 3, limit=2) == 0


# One message.


async def test_a_deleted_message_is_blank_and_its_neighbours_are_not(
    store: Store, alice: Partition
) -> None:
    made = columns(
        b"a",
        b"b",
        b"c",
        ids=["1", "2", "3"],
        traces=[TRACE] * 3,
        producers=["p", "q", "r"],
        flags=bytes([0, ENCRYPTED, ENCRYPTED]),
    )
    await appended(store, Change(appends=(append(alice, made),)))

    deleted = await delete(store, alice, 1)

    assert deleted is True
    assert await entries(store, alice) == [
        Entry(0, b"a", "1", TRACE, "p", 0),
        Entry(1, b"", None, None, None, DELETED),
        Entry(2, b"c", "3", TRACE, "r", ENCRYPTED),
    ]


async def test_a_message_without_columns_can_be_deleted_too(store: Store, alice: Partition) -> None:
    await appended(store, push(alice, b"a", b"b"))

    await delete(store, alice, 0)

    assert await entries(store, alice) == [Entry(0, b"", flag=DELETED), Entry(1, b"b")]


async def test_a_deleted_message_does_not_count_in_the_size_of_its_segment(
    store: Store, alice: Partition
) -> None:
    await appended(store, push(alice, b"12345", b"678"))

    await delete(store, alice, 0)

    assert [segment.size for segment in await read_all(store, alice)] == [3]


async def test_deleting_moves_no_offset(store: Store, alice: Partition) -> None:
    await push_each(store, alice, b"a", b"b")
    before = await fresh(store, alice)

    await delete(store, alice, 0)
    await delete(store, alice, 1)

    assert await fresh(store, alice) == before
    assert (await appended(store, push(alice, b"c"))).offsets == [2]


async def test_a_message_that_is_not_there_is_not_deleted(
    store: Store, orders: Queue, alice: Partition
) -> None:
    await push_each(store, alice, b"a", b"b", b"c")
    await truncate(store, alice, 1)
    await delete(store, alice, 1)

    found = [await delete(store, alice, offset) for offset in (0, 1, 2, 3, 1 << 40)]

    assert found == [False, False, True, False, False]
    assert await store.delete_message(orders.number, UNKNOWN, 0) is False


async def test_the_id_of_a_deleted_message_is_free_again(store: Store, alice: Partition) -> None:
    await appended(store, push_ids(alice, "a", "b"))
    await delete(store, alice, 0)

    where = await appended(store, push_ids(alice, "a", "b"))

    assert where == placed(alice, [2, 1], [1])
    assert await store.find_offset(alice.number, "a") == 2


async def test_a_deleted_message_is_forgotten_by_its_traces(store: Store, alice: Partition) -> None:
    made = columns(b"a", b"b", traces=[TRACE] * 2)
    await appended(store, Change(appends=(append(alice, made),)))
    await store.commit([Change(traces=(event(alice, 0, "story"), event(alice, 1, "story")))])

    await delete(store, alice, 0)

    assert await store.find_trace(TRACE, limit=9) == [(alice.number, 1)]
    assert await store.trace_events(alice.number, 0) == []
    assert [e.offset for e in await store.named_events("story", limit=9)] == [1]


async def test_a_deleted_message_does_not_become_a_dead_letter(
    store: Store, orders: Queue, alice: Partition
) -> None:
    await push_each(store, alice, b"secret")
    await delete(store, alice, 0)

    await store.commit([Change(dead_letters=(give_up(alice, 0),))])

    assert await letters(store, orders) == []


@pytest.mark.parametrize("how", ["truncate", "delete"])
async def test_an_id_that_a_replay_took_over_stays_when_the_old_message_goes(
    store: Store, alice: Partition, how: str
) -> None:
    await appended(store, push_ids(alice, "a"))
    await appended(store, Change(appends=(append_ids(alice, "a", replay=True),)))

    if how == "truncate":
        await truncate_all(store, alice, 1)
    else:
        await delete(store, alice, 0)

    assert await store.find_offset(alice.number, "a") == 1
    assert await appended(store, push_ids(alice, "a")) == placed(alice, [1], [0])


async def test_truncation_removes_deleted_messages_as_any_other(
    store: Store, alice: Partition
) -> None:
    await appended(store, push_ids(alice, "a", "b"))
    await delete(store, alice, 0)
    await appended(store, push_ids(alice, "a"))

    removed = await truncate(store, alice, 2)

    assert removed.messages == 2
    assert await store.find_offset(alice.number, "a") == 2


# A whole queue.


async def fill(store: Store, name: str, segments: int = 2) -> tuple[Queue, Partition]:
    """A queue that holds something of every kind."""
    queue = await make_queue(store, name, groups=["billing"])
    partition = await make_partition(store, queue)
    for n in range(segments):
        made = columns(b"x", ids=[f"{n}"], traces=[TRACE])
        await appended(store, Change(appends=(append(partition, made),)))
    await truncate(store, partition, 1)
    await store.commit(
        [
            Change(
                consumers=(update(partition, 0, ConsumerState(version=1)),),
                dead_letters=(give_up(partition, 1),),
                traces=(event(partition, 1, name),),
            )
        ]
    )
    return queue, partition


async def contents(store: Store, queue: Queue, partition: Partition) -> dict[str, int]:
    """How much of everything there is."""
    found: dict[str, Sequence[object]] = {
        "queues": [q for q in await store.queues() if q == queue],
        "partitions": list(await store.partitions(queue.number)),
        "consumers": list(await store.consumers(queue.number)),
        "subscriptions": await store.subscriptions(queue.number),
        "segments": await read_all(store, partition),
        "journal": await store.read_journal(queue.number, store.lane, 0, limit=999),
        "heads": list(await store.heads(queue.number)),
        "dead letters": await letters(store, queue),
        "history": await store.removals(queue.number, limit=9),
        "events": await store.trace_events(partition.number, 1),
        "named events": await store.named_events(queue.name, limit=9),
        "traced": [
            at for at in await store.find_trace(TRACE, limit=999) if at[0] == partition.number
        ],
    }
    return {what: len(things) for what, things in found.items()}


OF_A_PARTITION = {"segments", "events"}
"""What is asked for by the number of a partition, and may stay until it is purged."""


async def test_a_deleted_queue_is_not_found_by_anything_before_its_rows_are_removed(
    store: Store,
) -> None:
    queue, partition = await fill(store, "orders")
    before = await contents(store, queue, partition)

    await store.delete_queue(queue.number)

    after = await contents(store, queue, partition)
    assert set(before.values()) == {1}
    assert {what for what, count in after.items() if count} <= OF_A_PARTITION
    assert await store.trace_names(limit=9) == []
    assert await store.count_dead_letters(DeadLetterFilter(queue=queue.number)) == 0
    assert (await store.stats()).dead_letters == 0


async def test_nothing_is_left_of_a_deleted_queue_once_it_is_purged(store: Store) -> None:
    queue, partition = await fill(store, "orders")
    await store.delete_queue(queue.number)

    await purge_all(store)

    assert set((await contents(store, queue, partition)).values()) == {0}
    assert await store.find_offset(partition.number, "1") is None
    assert await store.given_up(partition.number, 0, 9) == []


async def test_a_queue_of_many_segments_is_purged_whole(store: Store) -> None:
    queue, partition = await fill(store, "orders", segments=250)
    await store.delete_queue(queue.number)

    await purge_all(store)

    assert set((await contents(store, queue, partition)).values()) == {0}


async def test_nothing_is_truncated_or_deleted_in_a_queue_that_is_being_removed(
    store: Store,
) -> None:
    queue, partition = await fill(store, "orders", segments=4)
    await store.delete_queue(queue.number)

    assert not await delete(store, partition, 2)
    assert (await truncate(store, partition, 3)).messages == 0
    await purge_all(store)
    assert set((await contents(store, queue, partition)).values()) == {0}


async def test_without_a_deleted_queue_there_is_nothing_to_purge(store: Store) -> None:
    queue, partition = await fill(store, "orders")

    assert not await store.purge()
    assert set((await contents(store, queue, partition)).values()) == {1}


async def test_the_steps_of_a_removal_grow_with_what_is_removed_and_not_faster(
    store: Store,
) -> None:
    steps = []
    for partitions in (1000, 2000):
        queue = await crowd(store, f"of-{partitions}", partitions)
        await store.delete_queue(queue.number)
        steps.append(await purge_all(store))

    few, many = steps
    assert few > 2
    assert few < many <= 2 * few + 2


async def test_queues_whose_partitions_lie_between_each_other_are_purged_one_by_one(
    store: Store,
) -> None:
    kept, doomed = [await make_queue(store, name) for name in ("kept", "doomed")]
    made = [
        await make_partition(store, queue, f"{n}") for n in range(9) for queue in (kept, doomed)
    ]
    await store.commit([push_ids(partition, "a") for partition in made])
    await store.delete_queue(doomed.number)

    await purge_all(store)

    left = [len(await read_all(store, partition)) for partition in made]
    known = [await store.find_offset(partition.number, "a") for partition in made]
    assert left == [1, 0] * 9
    assert known == [0, None] * 9


async def test_a_queue_is_created_and_used_while_the_old_one_of_its_name_is_removed(
    store: Store,
) -> None:
    old = await crowd(store, "orders", 1500)
    await store.delete_queue(old.number)
    assert await store.purge()

    queue = await crowd(store, "orders", 3)
    await purge_all(store)

    assert queue.number != old.number
    made = list(await store.partitions(queue.number))
    assert [await payloads(store, partition) for partition in made] == [[b"a"]] * 3
    assert len(list(await store.consumers(queue.number))) == 6
    assert [q.number for q in await store.queues()] == [queue.number]


async def test_several_deleted_queues_are_purged_after_each_other(store: Store) -> None:
    doomed = [await fill(store, name) for name in ("a", "b", "c")]
    for queue, _ in doomed:
        await store.delete_queue(queue.number)

    await purge_all(store)

    for each in doomed:
        assert set((await contents(store, *each)).values()) == {0}


async def test_deleting_a_queue_leaves_the_queues_beside_it_whole(store: Store) -> None:
    before, doomed, after = [await fill(store, name) for name in ("a", "b", "c")]

    await store.delete_queue(doomed[0].number)
    await purge_all(store)

    assert set((await contents(store, *before)).values()) == {1}
    assert set((await contents(store, *after)).values()) == {1}
    assert await store.find_offset(after[1].number, "1") == 1


async def _names(store: Store) -> list[str]:
    await asyncio.sleep(0)
    return [queue.name for queue in await store.queues()]


async def test_a_deleted_queue_is_gone_as_soon_as_its_removal_has_begun(store: Store) -> None:
    queue, partition = await fill(store, "orders", segments=250)
    other, there = await fill(store, "other")

    removal = asyncio.create_task(store.delete_queue(queue.number))
    while await _names(store) != ["other"]:
        pass
    seen = list(await store.partitions(queue.number))
    done = await store.commit([push(partition, b"late"), push(there, b"fine")])
    await removal

    assert seen == []
    assert [type(outcome) for outcome in done.outcomes] == [Gone, Applied]
    assert await store.heads(other.number) == {store.lane: 3}


async def test_a_push_to_a_deleted_queue_is_gone(
    store: Store, orders: Queue, alice: Partition
) -> None:
    await store.delete_queue(orders.number)

    outcome = await commit_one(store, push(alice, b"a"))

    assert outcome == Gone()
    assert await read_all(store, alice) == []


async def test_a_queue_of_the_same_name_has_nothing_of_the_old_one(store: Store) -> None:
    old_queue, old = await fill(store, "orders")
    await store.delete_queue(old_queue.number)

    queue = await make_queue(store, "orders")
    new = await make_partition(store, queue, old.name)
    where = await appended(store, push_ids(new, "0"))

    assert where == placed(new, [0])
    assert await store.heads(queue.number) == {store.lane: 1}
    assert list(await store.consumers(queue.number)) == []


async def test_numbers_are_never_given_twice(store: Store, orders: Queue) -> None:
    made = await store.create_partitions(orders.number, ["a", "b"])
    old = {orders.number, *(partition.number for partition in made)}
    await store.delete_queue(orders.number)

    queue = await make_queue(store, "orders")
    again = await store.create_partitions(queue.number, ["a", "b"])

    assert old.isdisjoint({queue.number, *(partition.number for partition in again)})
    assert min(queue.number, *(partition.number for partition in again)) > max(old)


async def test_deleting_a_queue_that_is_not_there_changes_nothing(store: Store) -> None:
    queue, partition = await fill(store, "orders")

    await store.delete_queue(UNKNOWN)

    assert set((await contents(store, queue, partition)).values()) == {1}


async def test_what_happened_once_is_remembered_after_its_queue_is_gone(
    store: Store, orders: Queue, alice: Partition
) -> None:
    once = Change(appends=(append_ids(alice, "a"),), key=key())
    await commit_one(store, once)

    await store.delete_queue(orders.number)

    assert await commit_one(store, once) == Applied((placed(alice, [0]),), repeated=True)


# Groups.

MANY = 1200
"""More states than are written or removed at once."""


def contact(queue: Queue, identity: str) -> Subscription:
    return Subscription(
        id=identity, queue=queue.number, group="crowd", mode="new", from_at=None, created_at=0
    )


def cursors(offset: Offset) -> list[StoredConsumer]:
    state = ConsumerState(version=1, cursor=offset)
    return [StoredConsumer(number, "crowd", state) for number in range(1, MANY + 1)]


async def states_of(store: Store, queue: Queue) -> list[StoredConsumer]:
    return list(await store.group_states(queue.number, "crowd", limit=2 * MANY))


async def test_a_deleted_group_has_no_states_although_they_are_not_removed_yet(
    store: Store, orders: Queue
) -> None:
    await store.subscribe(contact(orders, "1st"), cursors(5))
    await store.delete_group(orders.number, "crowd")

    assert await states_of(store, orders) == []
    assert list(await store.consumers(orders.number)) == []
    await store.subscribe(contact(orders, "2nd"), [])
    assert await states_of(store, orders) == []
    assert list(await store.consumers(orders.number)) == []


async def test_a_group_that_is_made_again_keeps_its_states_when_the_former_ones_are_removed(
    store: Store, orders: Queue
) -> None:
    await store.subscribe(contact(orders, "1st"), cursors(5))
    for identity in ("2nd", "3rd"):
        await store.delete_group(orders.number, "crowd")
        await store.subscribe(contact(orders, identity), cursors(7))

    await purge_all(store)

    assert await states_of(store, orders) == cursors(7)
    assert list(await store.consumers(orders.number)) == cursors(7)


async def test_states_of_a_group_are_read_in_pages(store: Store, orders: Queue) -> None:
    await store.subscribe(contact(orders, "1st"), cursors(5))

    first = await store.group_states(orders.number, "crowd", limit=500)
    second = await store.group_states(orders.number, "crowd", after=first[-1].partition, limit=MANY)

    assert [*first, *second] == cursors(5)


async def test_a_queue_that_is_deleted_takes_the_states_of_deleted_groups_along(
    store: Store, orders: Queue
) -> None:
    await store.subscribe(contact(orders, "1st"), cursors(5))
    await store.delete_group(orders.number, "crowd")
    await store.delete_queue(orders.number)

    await purge_all(store)

    assert not await store.purge()
    assert list(await store.consumers(orders.number)) == []


async def test_a_first_contact_that_is_interrupted_leaves_nothing(
    store: Store, orders: Queue
) -> None:
    first = asyncio.ensure_future(store.subscribe(contact(orders, "1st"), cursors(5)))
    await asyncio.sleep(0)
    if first.done():
        pytest.skip("it writes everything at once")
    first.cancel()
    with suppress(asyncio.CancelledError):
        await first

    assert await states_of(store, orders) == []
    assert await store.subscribe(contact(orders, "2nd"), cursors(7))
    await purge_all(store)
    assert await states_of(store, orders) == cursors(7)


async def test_of_two_first_contacts_at_once_one_counts_with_all_its_states(
    store: Store, orders: Queue
) -> None:
    results = await asyncio.gather(
        store.subscribe(contact(orders, "1st"), cursors(5)),
        store.subscribe(contact(orders, "2nd"), cursors(7)),
    )

    await purge_all(store)

    assert sorted(results) == [False, True]
    assert await states_of(store, orders) == cursors(5 if results[0] else 7)
