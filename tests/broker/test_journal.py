"""Whole queues by position: heads, batches, ranges, and groups that read them."""

import asyncio
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from skep import Broker, Draft, KeyRing
from skep.core.journal.journal import Selection
from skep.core.journal.reader_group import StartAtTime
from skep.core.journal.scan import PATIENCE, STEP_BYTES, PartitionFilter
from skep.errors import (
    Conflict,
    EncryptionUnavailable,
    Invalid,
    NotFound,
    PositionMismatch,
    QueueNotFound,
)
from skep.model.journal import MessageRun, Position, QueuePosition, Range, Step
from skep.store.open import open_store
from skep.store.protocol import Store
from skep.testing.clock import ManualClock
from tests.support.broker_builders import drafts, make_broker, pop, start, turn, until

ORDERS = Selection(queues=("orders",))
EVERYTHING = PartitionFilter()
KEYS = KeyRing({"1": b"k" * 32}, current="1")


def everybody(name: str) -> bool:
    return True


async def heads(queue: Broker, **asked: Any) -> Position:
    return (await queue.journal.look(ORDERS, everybody, **asked)).heads


async def wait_for_more(queue: Broker, after: Position, wait_ms: int) -> "asyncio.Task[Position]":
    """Somebody who waits, and has begun to."""
    task = await start(heads(queue, after=after, wait_ms=wait_ms))

    async def is_parked() -> bool:
        return bool(queue._parts.waiters.count())

    await until(is_parked)
    return task


def ranges(position: Position, name: str = "orders", *, start: int = 0) -> list[Range]:
    return [Range(lane, start, head) for lane, head in position.queues[name].lanes.items()]


async def read(
    queue: Broker, wanted: list[Range], some: PartitionFilter = EVERYTHING, name: str = "orders"
) -> tuple[list[MessageRun], list[Range]]:
    """What ranges hold, and what of them is gone."""
    number = (await queue.queues.get(name)).number
    runs: list[MessageRun] = []
    missing: list[Range] = []
    async for step in await queue.journal.read(name, number, wanted, some):
        runs += step.runs
        missing += step.missing
    return runs, missing


def payloads(runs: list[MessageRun]) -> list[bytes]:
    return [payload for run in runs for payload in run.columns.payloads]


def places(runs: list[MessageRun]) -> list[tuple[str, int]]:
    return [(run.name, run.start + index) for run in runs for index in range(len(run.columns))]


# Heads.


async def test_heads_count_all_that_was_ever_pushed(queue: Broker) -> None:
    await queue.push("orders", [*drafts(3, "alice"), *drafts(2, "bob")])
    await queue.queues.clear("orders")

    found = await queue.journal.look(ORDERS, everybody)

    assert sum(found.heads.queues["orders"].lanes.values()) == 5
    assert found.first == found.heads
    assert found.rows == 0


async def test_heads_say_where_a_time_is(queue: Broker, clock: ManualClock) -> None:
    await queue.push("orders", drafts(3))
    clock.advance(10)
    moment = clock.now()
    await queue.push("orders", drafts(2))

    async def place(at: int | None) -> Position | None:
        return (await queue.journal.look(ORDERS, everybody, at=at)).at

    places = [await place(at) for at in (moment, moment + 1, 0)]
    assert [each and behind(each) for each in places] == [3, 5, 0]
    assert await place(None) is None


async def test_a_queue_that_is_not_there_has_no_heads(queue: Broker) -> None:
    with pytest.raises(QueueNotFound):
        await heads(queue)


async def test_a_pattern_finds_the_queues_that_somebody_sees(queue: Broker) -> None:
    for name in ("orders.eu", "orders.us", "payments", "orders"):
        await queue.push(name, drafts(1))
    pattern = Selection(pattern=r"orders\..*")

    found = await queue.journal.look(pattern, lambda name: name != "orders.us")

    assert list(found.heads.queues) == ["orders.eu"]


@pytest.mark.parametrize(
    ("selection", "field"),
    [
        (Selection(), "queues"),
        (Selection(queues=("orders",), pattern="x"), "queues"),
        (Selection(queues=()), "queues"),
        (Selection(queues=("",)), "queues[0]"),
        (Selection(pattern="("), "pattern"),
        (Selection(pattern=r"(a|b)\1"), "pattern"),
        (Selection(pattern="a" * 256), "pattern"),
    ],
)
async def test_a_selection_that_means_nothing_is_refused(
    queue: Broker, selection: Selection, field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        await queue.journal.look(selection, everybody)

    assert refused.value.field == field


@pytest.mark.parametrize(
    "pattern",
    [r"orders\..*", r"orders\.(eu|us)", r"(?i)ORDERS\.[a-z]{2}", "orders[.](?:eu|us)"],
)
async def test_a_pattern_is_a_regular_expression_for_whole_names(
    queue: Broker, pattern: str
) -> None:
    for name in ("orders.eu", "orders.us", "old-orders.eu", "orders"):
        await queue.push(name, drafts(1))

    found = await queue.journal.look(Selection(pattern=pattern), everybody)

    assert list(found.heads.queues) == ["orders.eu", "orders.us"]


async def test_a_pattern_that_backtracks_is_matched_in_linear_time(queue: Broker) -> None:
    await queue.push("a-" + "a" * 200, drafts(1))

    found = await queue.journal.look(Selection(pattern="a-(a+)+b"), everybody)

    assert not found.heads.queues


async def test_a_pattern_that_takes_too_long_is_refused(queue: Broker) -> None:
    random = Random(1)
    for _ in range(200):
        await queue.push("".join(random.choices("ax", k=255)), drafts(1))

    with pytest.raises(Invalid, match="takes more than 1 s") as refused:
        await queue.journal.look(Selection(pattern="((a?x?){30}){30}c"), everybody)

    assert refused.value.field == "pattern"


async def test_who_waits_is_woken_by_a_push(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    before = await heads(queue)
    waiting = await wait_for_more(queue, before, 60_000)

    await queue.push("orders", drafts(1))

    assert sum((await waiting).queues["orders"].lanes.values()) == 2


async def test_who_waits_for_a_pattern_is_woken_by_a_new_queue(queue: Broker) -> None:
    pattern = Selection(pattern="orders.*")
    before = await queue.journal.look(pattern, everybody)
    waiting = await start(
        queue.journal.look(pattern, everybody, after=before.heads, wait_ms=60_000)
    )

    await queue.push("orders.eu", drafts(1))

    assert (await waiting).rows == 1


async def test_who_waits_in_vain_gets_the_same_heads(queue: Broker, clock: ManualClock) -> None:
    await queue.push("orders", drafts(1))
    before = await heads(queue)
    waiting = await wait_for_more(queue, before, 500)

    clock.advance(0.6)

    assert await waiting == before


@pytest.mark.one_server("what closes is one server")
async def test_nobody_waits_for_a_broker_that_closes(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    before = await heads(queue)
    waiting = await wait_for_more(queue, before, 60_000)

    queue.drain()

    assert await waiting == before


# Batches.


async def test_a_batch_ends_where_its_rows_do(queue: Broker) -> None:
    await queue.push("orders", drafts(10))

    found = await queue.journal.look(ORDERS, everybody, max_rows=4)

    assert found.rows == 4


async def test_a_batch_of_bytes_ends_with_a_segment_and_has_at_least_one(queue: Broker) -> None:
    for _ in range(5):
        await queue.push("orders", [Draft(b"x" * 100)] * 2)

    assert (await queue.journal.look(ORDERS, everybody, max_bytes=1)).rows == 2
    assert (await queue.journal.look(ORDERS, everybody, max_bytes=450)).rows == 4
    assert (await queue.journal.look(ORDERS, everybody, max_bytes=9999)).rows == 10


async def test_every_queue_has_its_part_of_a_batch(queue: Broker) -> None:
    await queue.push("orders", drafts(90))
    await queue.push("payments", drafts(10))
    both = Selection(queues=("orders", "payments"))

    found = await queue.journal.look(both, everybody, max_rows=10)

    taken = {name: sum(q.lanes.values()) for name, q in found.end.queues.items()}
    assert taken == {"orders": 9, "payments": 1}


async def test_batches_come_to_the_end_and_stay_there(queue: Broker) -> None:
    await queue.push("orders", drafts(10))
    at = (await queue.journal.look(ORDERS, everybody)).first
    rows = []
    while (found := await queue.journal.look(ORDERS, everybody, after=at, max_rows=4)).rows:
        rows.append(found.rows)
        at = found.end

    assert rows == [4, 4, 2]
    assert found.end == at == found.heads


# Reading.


@pytest.mark.one_server("reads positions of one lane")
async def test_every_message_is_read_once_in_the_order_of_its_partition(queue: Broker) -> None:
    for first in range(0, 60, 3):
        await queue.push("orders", drafts(3, f"p{first % 4}", first=first))

    runs, missing = await read(queue, ranges(await heads(queue)))

    assert payloads(runs) == [b"%d" % n for n in range(60)]
    assert missing == []
    for name in {run.name for run in runs}:
        offsets = [offset for partition, offset in places(runs) if partition == name]
        assert offsets == list(range(len(offsets)))


@pytest.mark.one_server("reads positions of one lane")
@pytest.mark.parametrize(("low", "high"), [(0, 1), (1, 2), (2, 5), (4, 10), (5, 5)])
async def test_a_range_begins_and_ends_anywhere(queue: Broker, low: int, high: int) -> None:
    await queue.push("orders", drafts(3))
    await queue.push("orders", drafts(7, first=3))
    (lane,) = (await heads(queue)).queues["orders"].lanes

    runs, _ = await read(queue, [Range(lane, low, high)])

    assert payloads(runs) == [b"%d" % n for n in range(low, high)]


async def test_ranges_are_read_in_the_order_given(queue: Broker) -> None:
    await queue.push("orders", drafts(6))
    (lane,) = (await heads(queue)).queues["orders"].lanes

    runs, _ = await read(queue, [Range(lane, 4, 6), Range(lane, 0, 2)])

    assert payloads(runs) == [b"4", b"5", b"0", b"1"]


async def push_large(queue: Broker) -> None:
    for n in range(64):
        await queue.push("orders", [Draft(bytes([n]) * 100_000)])


async def steps_of(queue: Broker) -> list[Step]:
    """How a queue is read."""
    number, wanted = (await queue.queues.get("orders")).number, ranges(await heads(queue))
    steps = await queue.journal.read("orders", number, wanted, EVERYTHING)
    return [step async for step in steps]


@pytest.mark.one_server("reads positions of one lane")
async def test_a_step_has_few_messages_if_they_are_large(queue: Broker) -> None:
    await push_large(queue)
    sizes = [sum(map(len, payloads(step.runs))) for step in await steps_of(queue)]
    assert sum(sizes) == 64 * 100_000
    # How large they are is seen in the first step.
    assert max(sizes[1:]) <= STEP_BYTES


async def test_everyone_else_has_turns_between_two_steps_whoever_reads(queue: Broker) -> None:
    await push_large(queue)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    readers = await asyncio.gather(*(steps_of(queue) for _ in range(3)))
    counting.cancel()
    assert turns >= PATIENCE * sum(map(len, readers))


@pytest.mark.one_server("reads positions of one lane")
async def test_what_retention_removed_is_named(queue: Broker) -> None:
    await queue.push("orders", drafts(3, "alice"))
    await queue.push("orders", drafts(2, "bob"))
    await queue.push("orders", drafts(4, "alice"))
    position = await heads(queue)
    (lane,) = position.queues["orders"].lanes
    await queue.queues.clear("orders", partition="alice")

    runs, missing = await read(queue, ranges(position))

    assert places(runs) == [("bob", 0), ("bob", 1)]
    assert missing == [Range(lane, 0, 3), Range(lane, 5, 9)]


async def test_a_deleted_message_is_left_out_and_is_not_missing(queue: Broker) -> None:
    receipts = await queue.push("orders", drafts(5))
    for index in (0, 2, 4):
        await queue.messages.delete(receipts[index].id)

    runs, missing = await read(queue, ranges(await heads(queue)))

    assert (payloads(runs), missing) == ([b"1", b"3"], [])
    assert [run.position for run in runs] == [1, 3]


async def test_partitions_are_chosen_by_name_and_by_how_they_begin(queue: Broker) -> None:
    for name in ("alice", "albert", "bob"):
        await queue.push("orders", drafts(2, name))
    wanted = ranges(await heads(queue))

    named, _ = await read(queue, wanted, PartitionFilter(partitions=frozenset({"bob", "nobody"})))
    begun, _ = await read(queue, wanted, PartitionFilter(prefix="al"))

    assert {run.name for run in named} == {"bob"}
    assert {run.name for run in begun} == {"alice", "albert"}


async def test_shares_hold_every_partition_once(queue: Broker) -> None:
    for number in range(40):
        await queue.push("orders", drafts(1, f"p{number}"))
    wanted = ranges(await heads(queue))

    shares = [
        (await read(queue, wanted, PartitionFilter(share=(index, 3))))[0] for index in range(3)
    ]

    assert all(shares)
    assert sorted(place for share in shares for place in places(share)) == sorted(
        (f"p{number}", 0) for number in range(40)
    )


@pytest.mark.parametrize(
    ("wanted", "some", "field"),
    [
        ([], EVERYTHING, "ranges"),
        ([Range(0, 5, 4)], EVERYTHING, "ranges[0]"),
        ([Range(0, 0, 1), Range(-1, 0, 1)], EVERYTHING, "ranges[1]"),
        ([Range(0, 0, 1 << 63)], EVERYTHING, "ranges[0]"),
        ([Range(0, 0, 1)], PartitionFilter(share=(3, 3)), "share[0]"),
        ([Range(0, 0, 1)], PartitionFilter(share=(0, 0)), "share[1]"),
    ],
)
async def test_ranges_that_mean_nothing_are_refused(
    queue: Broker, wanted: list[Range], some: PartitionFilter, field: str
) -> None:
    await queue.push("orders", drafts(1))

    with pytest.raises(Invalid) as refused:
        await read(queue, wanted, some)

    assert refused.value.field == field


async def test_a_queue_that_was_made_anew_is_not_read_by_its_old_number(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    old = await heads(queue)
    number = (await queue.queues.get("orders")).number
    await queue.queues.delete("orders")
    await queue.push("orders", drafts(1))

    with pytest.raises(PositionMismatch):
        await queue.journal.read("orders", number, ranges(old), EVERYTHING)
    with pytest.raises(PositionMismatch):
        await heads(queue, after=old)


async def test_an_encrypted_queue_is_read_in_the_clear_by_who_has_the_key(store: Store) -> None:
    async with make_broker(store, keys=KEYS) as queue:
        await queue.queues.configure("orders", encryption_enabled=True)
        await queue.push("orders", drafts(3))

        runs, _ = await read(queue, ranges(await heads(queue)))

        assert payloads(runs) == [b"0", b"1", b"2"]


async def test_an_encrypted_queue_is_not_read_without_the_key(
    tmp_path: Path, clock: ManualClock
) -> None:
    place = tmp_path / "store"
    async with make_broker(open_store(place, clock=clock), keys=KEYS) as queue:
        await queue.queues.configure("orders", encryption_enabled=True)
        await queue.push("orders", drafts(1))

    async with make_broker(open_store(place, clock=clock)) as queue:
        with pytest.raises(EncryptionUnavailable):
            await read(queue, ranges(await heads(queue)))


# Groups.


async def begin(queue: Broker, start: Any, group: str = "archive") -> Position:
    position, _ = await queue.reader_groups.begin(group, ORDERS, start, everybody)
    return position


def behind(position: Position) -> int:
    return sum(position.queues["orders"].lanes.values())


async def test_a_group_begins_at_the_same_place_until_it_has_moved(queue: Broker) -> None:
    await queue.push("orders", drafts(2))
    first = await begin(queue, "latest")
    await queue.push("orders", drafts(3))

    again = await begin(queue, "latest")
    await queue.reader_groups.move("archive", await heads(queue))
    await queue.push("orders", drafts(4))
    anew = await begin(queue, "latest")

    assert [behind(first), behind(again), behind(anew)] == [2, 2, 9]


async def test_a_group_that_stays_is_shown_where_it_began_and_begins_anew(queue: Broker) -> None:
    await queue.push("orders", drafts(2))
    await begin(queue, "earliest")

    await queue.reader_groups.move("archive", await heads(queue), stay=True)

    assert behind((await queue.reader_groups.get("archive")).position) == 0
    assert behind(await begin(queue, "latest")) == 2


async def test_a_start_survives_a_restart(tmp_path: Path, clock: ManualClock) -> None:
    place = tmp_path / "store"
    async with make_broker(open_store(place, clock=clock)) as queue:
        await queue.push("orders", drafts(2))
        first = await begin(queue, "latest")
        await queue.push("orders", drafts(3))

    async with make_broker(open_store(place, clock=clock)) as queue:
        assert await begin(queue, "latest") == first


@pytest.mark.parametrize(("start", "before"), [("earliest", 0), ("latest", 5), ("group", 0)])
async def test_a_group_begins_where_it_is_told(queue: Broker, start: str, before: int) -> None:
    await queue.push("orders", drafts(5))

    assert behind(await begin(queue, start)) == before


async def test_a_group_goes_on_where_it_was(queue: Broker) -> None:
    await queue.push("orders", drafts(5))
    await begin(queue, "earliest")
    await queue.reader_groups.move("archive", await heads(queue))
    await queue.push("orders", drafts(1))

    assert behind(await begin(queue, "group")) == 5


async def test_a_group_begins_at_a_position(queue: Broker) -> None:
    await queue.push("orders", drafts(5))
    position = await heads(queue)
    await queue.push("orders", drafts(5))

    assert await begin(queue, position) == position


async def test_a_group_begins_at_a_time(queue: Broker, clock: ManualClock) -> None:
    for _ in range(4):
        await queue.push("orders", drafts(2))
        clock.advance(10)
    moment = clock.now() - 25_000_000

    assert behind(await begin(queue, StartAtTime(at=moment), "a")) == 4
    assert behind(await begin(queue, StartAtTime(at=0), "b")) == 0


async def test_a_time_to_come_is_refused_or_means_the_end(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(2))
    later = clock.now() + 1_000_000

    with pytest.raises(Invalid, match="later than all messages"):
        await begin(queue, StartAtTime(at=later))
    assert behind(await begin(queue, StartAtTime(at=later, otherwise="latest"))) == 2


@pytest.mark.one_server("reads positions of one lane")
async def test_a_time_is_found_between_what_retention_left(
    queue: Broker, clock: ManualClock
) -> None:
    for number in range(6):
        await queue.push("orders", drafts(2, f"p{number % 2}"))
        clock.advance(10)
    moment = clock.now() - 35_000_000
    before = behind(await begin(queue, StartAtTime(at=moment), "a"))
    await queue.queues.clear("orders", partition="p1")

    runs, _ = await read(
        queue,
        [
            Range(lane, at, 12)
            for lane, at in (await begin(queue, StartAtTime(at=moment), "b"))
            .queues["orders"]
            .lanes.items()
        ],
    )

    assert before == 6
    assert [run.created_at >= moment for run in runs] == [True]


async def test_a_time_before_what_is_kept_is_where_that_begins(
    queue: Broker, clock: ManualClock
) -> None:
    """A reader that began before it would miss what is gone."""
    await queue.push("orders", drafts(3, "alice"))
    clock.advance(10)
    await queue.push("orders", drafts(2, "bob"))
    await queue.queues.clear("orders", partition="alice")

    assert behind(await begin(queue, StartAtTime(at=0))) == 3


async def test_a_position_of_another_store_is_refused(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    number = (await queue.queues.get("orders")).number
    strange = Position(store="x", queues={"orders": QueuePosition(number=number, lanes={0: 1})})

    with pytest.raises(PositionMismatch, match="another store"):
        await begin(queue, strange)
    await begin(queue, "earliest")
    with pytest.raises(PositionMismatch, match="another store"):
        await queue.reader_groups.move("archive", strange)


async def test_a_group_that_pops_is_not_one_that_reads(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    await pop(queue, group="billing")

    with pytest.raises(Conflict, match="choose another name"):
        await begin(queue, "earliest", "billing")


async def test_a_group_that_never_began_cannot_move(queue: Broker) -> None:
    await queue.push("orders", drafts(1))

    with pytest.raises(NotFound):
        await queue.reader_groups.move("archive", await heads(queue))
    with pytest.raises(NotFound):
        await queue.reader_groups.get("archive")


async def test_who_begins_at_once_begins_at_one_place(queue: Broker) -> None:
    await queue.push("orders", drafts(1))

    async def one() -> Position:
        await queue.push("orders", drafts(1))
        return await begin(queue, "latest")

    found = await asyncio.gather(*(one() for _ in range(5)))

    assert len({behind(position) for position in found}) == 1


async def test_lag_is_what_lies_behind_a_reader(queue: Broker, clock: ManualClock) -> None:
    await queue.push("orders", drafts(3))
    clock.advance(5)
    await begin(queue, "earliest")
    await turn()

    lags = await queue.insight.groups.groups(everybody)
    (lag,) = [each for each in lags if each.group == "archive"]

    assert (lag.queue, lag.backlog, lag.subscription_mode) == ("orders", 3, "journal")
    assert lag.oldest_at is not None
    assert lag.oldest_at == lag.subscribed_at - timedelta(seconds=5)


async def test_a_reader_at_the_end_has_no_lag(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    await begin(queue, "latest")

    lag = await queue.insight.groups.group("orders", "archive")

    assert (lag.backlog, lag.oldest_at) == (0, None)


async def test_a_reader_can_be_forgotten(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    await begin(queue, "latest")

    assert await queue.reader_groups.forget("archive")
    assert not await queue.reader_groups.forget("archive")
