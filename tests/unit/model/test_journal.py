"""Positions in the journal of several queues."""

from hypothesis import given, strategies as st

from skep.model.journal import (
    Position,
    QueuePosition,
    Range,
    SegmentPlace,
    behind,
    place_of,
    share_out,
)
from skep.model.segment import Columns, Segment


def segment(start: int, position: int) -> Segment:
    return Segment(
        queue=1,
        partition=2,
        start=start,
        created_at=100,
        lane=3,
        position=position,
        size=5,
        columns=Columns(payloads=[b"12", b"345"]),
    )


def test_a_position_within_another_has_the_queues_of_that_one() -> None:
    orders, later = (QueuePosition(number=1, lanes={0: lane}) for lane in (1, 5))
    mail = QueuePosition(number=2, lanes={0: 2})
    first = Position(store="s", queues={"orders": orders, "mail": mail})
    position = Position(store="s", queues={"orders": later, "deleted": mail})

    assert position.within(first).queues == {"orders": later, "mail": mail}
    assert first.numbers() == {"orders": 1, "mail": 2}


def test_a_segment_stands_where_its_messages_are_in_its_lane() -> None:
    first, second = segment(0, 10), segment(2, 14)

    assert place_of(second, first) == SegmentPlace(
        stands=Range(3, 14, 16), size=5, created_at=100, before=Range(3, 10, 12)
    )
    assert place_of(first, None).before is None


def test_a_reader_is_behind_by_the_messages_up_to_the_heads() -> None:
    assert behind({0: 5, 1: 3, 2: 1}, {0: 2, 2: 4}) == 6


@given(st.dictionaries(st.integers(0, 9), st.integers(0, 1000)), st.integers(1, 1000))
def test_a_batch_has_some_of_every_lane_that_waits(waiting: dict[int, int], size: int) -> None:
    shares = share_out(waiting, size)

    assert all(0 < shares[lane] <= count for lane, count in waiting.items() if count)
    assert sum(shares.values()) <= size + len(waiting)
    if sum(waiting.values()) <= size:
        assert shares == waiting
