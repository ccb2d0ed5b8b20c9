"""Ranges are a set of offsets, written briefly."""

import pytest
from hypothesis import given, strategies as st

from skep.model import ranges
from skep.model.ranges import Ranges

offsets = st.sets(st.integers(min_value=0, max_value=60))
places = st.integers(min_value=0, max_value=60)


def members(what: Ranges) -> set[int]:
    return {offset for start, stop in what for offset in range(start, stop)}


def is_tidy(what: Ranges) -> bool:
    """Whether no range is empty, and none touches or overlaps the next."""
    bounds = [bound for pair in what for bound in pair]
    return bounds == sorted(set(bounds))


@given(offsets)
def test_ranges_hold_exactly_the_offsets_they_were_made_from(given_offsets: set[int]) -> None:
    made = ranges.from_offsets(given_offsets)

    assert members(made) == given_offsets
    assert is_tidy(made)


def test_neighbours_become_one_range() -> None:
    assert ranges.from_offsets([3, 1, 2, 7, 9, 8]) == ((1, 4), (7, 10))


def test_an_offset_given_twice_is_there_once() -> None:
    assert ranges.from_offsets([4, 4, 5]) == ((4, 6),)


@given(offsets, offsets)
def test_a_union_holds_what_is_in_one_or_the_other(a: set[int], b: set[int]) -> None:
    both = ranges.union(ranges.from_offsets(a), ranges.from_offsets(b))

    assert both == ranges.from_offsets(a | b)


@given(offsets, places)
def test_contains_says_whether_an_offset_is_in_the_set(given_offsets: set[int], at: int) -> None:
    made = ranges.from_offsets(given_offsets)

    assert ranges.contains(made, at) == (at in given_offsets)


@given(offsets)
def test_the_size_is_the_number_of_offsets(given_offsets: set[int]) -> None:
    assert ranges.size(ranges.from_offsets(given_offsets)) == len(given_offsets)


@given(offsets, places)
def test_a_cursor_stops_at_the_first_offset_that_is_missing(done: set[int], cursor: int) -> None:
    reached, rest = ranges.advance(cursor, ranges.from_offsets(done))

    expected = next(at for at in range(cursor, 100) if at not in done)
    assert reached == expected
    assert rest == ranges.from_offsets(offset for offset in done if offset > reached)


@pytest.mark.parametrize(
    ("cursor", "done", "reached"),
    [
        (0, (), (0, ())),
        (0, ((0, 3),), (3, ())),
        (0, ((1, 3),), (0, ((1, 3),))),
        (5, ((0, 3),), (5, ())),
        (2, ((0, 3), (3, 4), (6, 7)), (4, ((6, 7),))),
    ],
    ids=["nothing", "contiguous", "a gap", "all behind", "overlapping"],
)
def test_a_cursor_moves_over_what_is_contiguous_only(
    cursor: int, done: Ranges, reached: tuple[int, Ranges]
) -> None:
    assert ranges.advance(cursor, done) == reached


@given(offsets, places, places)
def test_missing_is_what_a_stretch_has_and_the_set_has_not(
    given_offsets: set[int], start: int, stop: int
) -> None:
    missing = list(ranges.missing(ranges.from_offsets(given_offsets), start, stop))

    assert missing == [at for at in range(start, stop) if at not in given_offsets]


@given(offsets, places, places)
def test_a_complement_holds_what_is_missing(inside: set[int], start: int, stop: int) -> None:
    rest = ranges.complement(ranges.from_offsets(inside), start, stop)

    assert members(rest) == set(range(start, stop)) - inside
    assert is_tidy(rest)
