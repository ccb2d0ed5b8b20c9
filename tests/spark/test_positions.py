"""Positions and plans: pure, and the same for the same input."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pyspark_skep import DataLost, Interrupted
from pyspark_skep.options import Options
from pyspark_skep.plan import count_splits, pack, plan_splits
from pyspark_skep.position import (
    JournalPosition,
    LaneSlice,
    check_position,
    clamp,
    rows_between,
    slices_between,
    without_mismatches,
)
from pyspark_skep.reader import remaining


def at(store: str = "s", number: int = 1, **queues: dict[str, int]) -> JournalPosition:
    places = {name: {"lanes": lanes, "number": number} for name, lanes in queues.items()}
    return {"queues": places, "store": store, "v": 1}


def options(**chosen: Any) -> Options:
    return Options("http://127.0.0.1:1", **chosen)


# Positions.


def test_a_position_has_one_form() -> None:
    one = check_position(at(b={"1": 2, "0": 1}, a={}))
    other = check_position(json.loads(json.dumps(at(a={}, b={"0": 1, "1": 2}))))

    assert json.dumps(one) == json.dumps(other)


@pytest.mark.parametrize("value", [None, [], {}, {"queues": 1}, {"queues": {"a": 1}}, at(a=1)])  # type: ignore[arg-type]
def test_what_is_not_a_position_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="not a position"):
        check_position(value)


def test_between_two_positions_is_what_the_second_has_more() -> None:
    start, end = at(a={"0": 5}), at(a={"0": 7, "10": 2, "9": 1})

    assert slices_between(start, end, strict=True) == [
        LaneSlice("a", 1, 0, 5, 7),
        LaneSlice("a", 1, 9, 0, 1),
        LaneSlice("a", 1, 10, 0, 2),
    ]
    assert rows_between(start, end) == 5


def test_nothing_is_between_a_position_and_an_earlier_one() -> None:
    assert slices_between(at(a={"0": 5}), at(a={"0": 3}), strict=True) == []


def test_a_queue_that_appears_later_is_read_from_its_beginning() -> None:
    assert slices_between(at(), at(a={"0": 3}), strict=True) == [LaneSlice("a", 1, 0, 0, 3)]


@pytest.mark.parametrize("end", [at(number=2, a={"0": 3}), at("t", a={"0": 3})])
def test_a_queue_that_was_created_again_is_an_error_or_read_from_its_beginning(
    end: JournalPosition,
) -> None:
    start = at(a={"0": 9})

    with pytest.raises(DataLost, match=r"'a'.*new checkpoint"):
        slices_between(start, end, strict=True)
    assert rows_between(start, end) == 3


def test_of_a_position_only_what_is_still_the_same_is_asked_about() -> None:
    start = at(a={"0": 1}, b={"0": 1})
    heads = at(a={"0": 3}) | {"queues": {"a": {"lanes": {"0": 3}, "number": 2}}}

    assert list(without_mismatches(start, heads)["queues"]) == ["b"]
    assert without_mismatches(start, at("t", a={"0": 3})) == at("t")


def test_a_batch_does_not_go_beyond_the_target() -> None:
    start, target = at(a={"0": 1}), at(a={"0": 4})

    assert clamp(at(a={"0": 3}), start=start, target=target) == at(a={"0": 3})
    assert clamp(at(a={"0": 9, "1": 5}), start=start, target=target) == at(a={"0": 4, "1": 0})
    assert clamp(at(a={"0": 9}, b={"0": 1}), start=start, target=target) == at(a={"0": 4})


def test_a_stream_that_is_beyond_the_target_does_not_go_back() -> None:
    start = at(a={"0": 8})

    assert not rows_between(start, clamp(at(a={"0": 9}), start=start, target=at(a={"0": 4})))
    assert clamp(at(a={"0": 9}), start=start, target=at(a={"0": 4})) == start


# Plans.

lanes = st.dictionaries(st.integers(0, 20), st.integers(0, 10_000), max_size=6)


def slices_of(ends: dict[int, int]) -> list[LaneSlice]:
    return [LaneSlice("a", 1, lane, 0, end) for lane, end in sorted(ends.items()) if end]


@given(lanes, st.integers(1, 5000))
def test_a_cut_keeps_every_message_once_and_in_order(ends: dict[int, int], size: int) -> None:
    slices = slices_of(ends)

    parts = pack(slices, size)

    assert [(p.lane, k) for part in parts for p in part for k in range(p.start, p.end)] == [
        (p.lane, k) for p in slices for k in range(p.start, p.end)
    ]
    assert all(sum(p.end - p.start for p in part) <= size for part in parts)


def test_a_small_batch_has_one_task() -> None:
    slices = [LaneSlice("a", 1, 0, 0, 10), LaneSlice("b", 2, 0, 5, 10)]

    (split,) = plan_splits(slices, options())

    assert split.slices == tuple(slices)


def test_nothing_to_read_has_no_task() -> None:
    assert plan_splits([], options()) == []


@pytest.mark.parametrize(
    ("rows", "chosen", "count"),
    [
        (250_000, {}, 1),
        (250_001, {}, 2),
        (100_000_000, {}, 64),
        (10, {"min_partitions": 4}, 4),
        (3, {"min_partitions": 4}, 3),
        (1000, {"max_records_per_partition": 10}, 100),
    ],
)
def test_tasks_are_as_many_as_messages_and_options_ask_for(
    rows: int, chosen: dict[str, int], count: int
) -> None:
    assert count_splits(rows, options(**chosen)) == count
    assert len(plan_splits([LaneSlice("a", 1, 0, 0, rows)], options(**chosen))) == count


def test_in_order_each_task_has_a_share_of_the_partitions_of_everything() -> None:
    slices = (LaneSlice("a", 1, 0, 0, 100),)

    splits = plan_splits(slices, options(preserve_order=True, min_partitions=3))

    assert [split.share for split in splits] == [(0, 3), (1, 3), (2, 3)]
    assert {split.slices for split in splits} == {slices}
    assert plan_splits(slices, options(preserve_order=True))[0].share is None


# Resuming.


def test_what_remains_of_each_range_begins_where_the_server_is() -> None:
    ranges = [(0, 0, 10), (1, 5, 9), (2, 0, 3)]

    assert remaining(ranges, {"0": 4}) == [(0, 4, 10), (1, 5, 9), (2, 0, 3)]
    assert remaining(ranges, {"0": 10}) == [(1, 5, 9), (2, 0, 3)]
    assert remaining(ranges, {"1": 9, "0": 2}) == [(0, 2, 10), (2, 0, 3)]
    assert remaining(ranges, {"0": 10, "1": 9, "2": 3}) == []
    for beyond in ({"3": 1}, {"0": 11}, {"1": 4}):
        with pytest.raises(Interrupted, match="not requested"):
            remaining(ranges, beyond)
