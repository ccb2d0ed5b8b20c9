"""How a segment is stored: the same columns back, or ``Corrupted``."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from skep.errors import Corrupted
from skep.model.segment import Columns, Segment
from skep.store.rocksdb import keys, segment_codec as columns

numbers = st.integers(0, 2**58)
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)
traces = st.binary(min_size=16, max_size=16).filter(any)
payloads = st.lists(st.binary(max_size=9), min_size=1, max_size=6)


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    """Any segment, with any combination of columns."""
    data = draw(payloads)

    def column(entry: st.SearchStrategy[Any]) -> Any:
        whole = st.lists(st.none() | entry, min_size=len(data), max_size=len(data))
        return draw(st.none() | whole)

    return Segment(
        queue=draw(numbers),
        partition=draw(numbers),
        start=draw(numbers),
        created_at=draw(numbers),
        lane=draw(st.integers(0, 2**32 - 1)),
        position=draw(numbers),
        size=sum(map(len, data)),
        columns=Columns(
            payloads=data,
            transaction_ids=column(texts),
            trace_ids=column(traces),
            producers=column(texts),
            flags=draw(st.none() | st.binary(min_size=len(data), max_size=len(data))),
        ),
    )


def key_of(segment: Segment) -> bytes:
    return keys.segment_key(segment.partition, segment.start)


def plain(segment: Segment) -> dict[str, Any]:
    """A segment whose columns are lists."""
    part = segment.columns
    parts = [part.payloads, part.transaction_ids, part.trace_ids, part.producers, part.flags]
    return {
        "place": (segment.queue, segment.partition, segment.start, segment.end),
        "journal": (segment.lane, segment.position),
        "rest": (segment.created_at, segment.size),
        "columns": [None if column is None else list(column) for column in parts],
    }


@given(segments())
def test_a_segment_comes_back_as_it_was(segment: Segment) -> None:
    found = columns.decode(key_of(segment), columns.encode(segment))

    assert plain(found) == plain(segment)


@given(segments())
def test_a_segment_that_was_read_can_be_stored_again(segment: Segment) -> None:
    value = columns.encode(segment)

    assert columns.encode(columns.decode(key_of(segment), value)) == value


@given(segments(), st.data())
def test_a_blanked_segment_comes_back_as_it_was(segment: Segment, data: st.DataObject) -> None:
    offset = data.draw(st.integers(segment.start, segment.end - 1))
    read = columns.decode(key_of(segment), columns.encode(segment))
    blanked = read.blank(offset)

    if blanked is not None:
        found = columns.decode(key_of(segment), columns.encode(blanked))

        assert plain(found) == plain(blanked)


def decoded(entries: Sequence[bytes], texts: Sequence[str | None]) -> Columns:
    made = Columns(payloads=entries, transaction_ids=texts, producers=texts)
    segment = Segment(
        queue=1, partition=2, start=3, created_at=4, lane=0, position=0, size=0, columns=made
    )
    return columns.decode(key_of(segment), columns.encode(segment)).columns


@given(st.lists(texts | st.none(), min_size=1, max_size=8), st.data())
def test_a_column_is_read_like_a_list(entries: list[str | None], data: st.DataObject) -> None:
    found = decoded([b"%d" % n for n in range(len(entries))], entries)
    part = data.draw(st.slices(len(entries)))
    index = data.draw(st.integers(-len(entries), len(entries) - 1))

    for column, expected in (
        (found.transaction_ids, entries),
        (found.producers, entries),
        (found.payloads, [b"%d" % n for n in range(len(entries))]),
    ):
        assert column is not None
        assert column[part] == expected[part]
        assert column[index] == expected[index]
        assert list(column) == expected
        assert list(reversed(column)) == list(reversed(expected))
        assert len(column) == len(expected)


@pytest.mark.parametrize("index", [3, 4, -4, 1 << 40])
def test_a_column_has_no_entries_beyond_its_ends(index: int) -> None:
    column = decoded([b"a", b"b", b"c"], [None] * 3).payloads

    with pytest.raises(IndexError):
        column[index]


@given(segments(), st.data())
def test_a_flipped_bit_anywhere_is_noticed(segment: Segment, data: st.DataObject) -> None:
    value = bytearray(columns.encode(segment))
    value[data.draw(st.integers(0, len(value) - 1))] ^= 1 << data.draw(st.integers(0, 7))

    with pytest.raises(Corrupted):
        columns.decode(key_of(segment), bytes(value))


@given(segments(), st.data())
def test_a_segment_that_is_cut_short_or_longer_is_noticed(
    segment: Segment, data: st.DataObject
) -> None:
    value = columns.encode(segment)
    cut = data.draw(st.integers(0, len(value) - 1))

    for damaged in (value[:cut], value + b"\x00", b""):
        with pytest.raises(Corrupted):
            columns.decode(key_of(segment), damaged)


def test_a_segment_of_a_later_format_says_so() -> None:
    value = (
        b"\x02"
        + columns.encode(
            Segment(
                queue=1,
                partition=2,
                start=3,
                created_at=4,
                lane=0,
                position=0,
                size=1,
                columns=Columns(payloads=[b"a"]),
            )
        )[1:]
    )

    with pytest.raises(Corrupted, match="format 2, this version reads 1"):
        columns.decode(keys.segment_key(2, 3), value)
