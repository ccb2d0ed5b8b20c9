"""Messages as columns."""

from hypothesis import given, strategies as st

from skep.model.segment import DELETED, ENCRYPTED, Columns, Segment, concat, until_enough

BARE = Columns(payloads=[b"1", b"22", b"333"])
FULL = Columns(
    payloads=[b"1", b"22", b"333"],
    transaction_ids=["a", None, "c"],
    trace_ids=[b"x", None, None],
    producers=["p", "p", None],
    flags=bytes([0, ENCRYPTED, 0]),
)
columns = st.sampled_from([BARE, FULL])


def segment(columns: Columns = FULL, start: int = 10) -> Segment:
    return Segment(
        queue=1,
        partition=2,
        start=start,
        created_at=100,
        lane=0,
        position=start,
        size=sum(map(len, columns.payloads)),
        columns=columns,
    )


@given(columns, st.integers(0, 3), st.integers(0, 3))
def test_a_cut_is_a_pick_of_neighbours(several: Columns, start: int, stop: int) -> None:
    cut, picked = several.cut(start, stop), several.pick(range(start, stop))

    assert len(cut) == max(0, stop - start)
    assert (list(cut.payloads), cut.transaction_ids, cut.trace_ids, cut.producers) == (
        list(picked.payloads),
        picked.transaction_ids,
        picked.trace_ids,
        picked.producers,
    )
    assert cut.flags == picked.flags


@given(columns, st.integers(1, 2))
def test_parts_that_are_joined_are_the_whole(several: Columns, at: int) -> None:
    assert concat([several.cut(0, at), several.cut(at, 3)]) == several
    assert concat([several]) is several


def test_a_column_that_one_part_has_is_filled_up_for_the_others() -> None:
    joined = concat([BARE, FULL])

    assert joined.transaction_ids == [None, None, None, "a", None, "c"]
    assert joined.flags == bytes([0, 0, 0, 0, ENCRYPTED, 0])


def test_a_segment_knows_its_messages_by_offset() -> None:
    assert segment().end == 13
    assert [segment().flag(offset) for offset in (10, 11)] == [0, ENCRYPTED]
    assert [segment().chosen_id(offset) for offset in (10, 11)] == ["a", None]
    assert (segment(BARE).flag(11), segment(BARE).chosen_id(10)) == (0, None)


@given(columns, st.integers(10, 12))
def test_a_message_that_is_blanked_keeps_its_offset_and_nothing_else(
    several: Columns, offset: int
) -> None:
    blanked = segment(several).blank(offset)

    assert blanked is not None
    assert blanked.end == 13
    assert blanked.flag(offset) == DELETED
    assert blanked.columns.payloads[offset - 10] == b""
    assert blanked.chosen_id(offset) is None
    assert blanked.size == sum(map(len, blanked.columns.payloads))
    assert blanked.blank(offset) is None


def test_segments_are_read_until_there_are_enough_messages_or_bytes() -> None:
    several = [segment(BARE, start) for start in (10, 13, 16)]

    assert until_enough(several, 12, messages=1, size=100) == several[:1]
    assert until_enough(several, 12, messages=2, size=100) == several[:2]
    assert until_enough(several, 12, messages=100, size=7) == several[:2]
    assert until_enough(several, 12, messages=100, size=100) == several
