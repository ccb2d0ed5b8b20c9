"""Positions in queues as a whole: how many messages of each lane lie behind a reader."""

from collections.abc import Hashable, Mapping
from typing import TypeVar

import msgspec

from skep.model.name import Instant, Offset
from skep.model.segment import Columns, Segment

K = TypeVar("K", bound=Hashable)

Lanes = dict[int, int]
"""By lane, how many of its messages; a lane that is not named is at 0."""


class QueuePosition(msgspec.Struct, frozen=True, kw_only=True):
    """A place in one queue. One that was deleted and made anew has another ``number``."""

    number: int
    lanes: Lanes


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """A place in several queues of a store, by their names."""

    store: str
    queues: dict[str, QueuePosition]
    v: int = 1

    def within(self, first: "Position") -> "Position":
        """The same in the queues of ``first``, which stands for those that it does not name."""
        known = {name: queue for name, queue in self.queues.items() if name in first.queues}
        return Position(store=self.store, queues=first.queues | known)

    def numbers(self) -> dict[str, int]:
        """The queues it is in."""
        return {name: queue.number for name, queue in self.queues.items()}


class Range(msgspec.Struct, frozen=True, array_like=True):
    """Messages ``[start, end)`` of a lane."""

    lane: int
    start: int
    end: int


class SegmentPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a segment stands in the journal, without its messages.

    ``before`` is where the segment before it in its partition stands, if that one is kept.
    """

    stands: Range
    size: int
    created_at: Instant
    before: Range | None


def place_of(segment: Segment, before: Segment | None) -> SegmentPlace:
    return SegmentPlace(
        stands=_range_of(segment),
        size=segment.size,
        created_at=segment.created_at,
        before=None if before is None else _range_of(before),
    )


def _range_of(segment: Segment) -> Range:
    return Range(segment.lane, segment.position, segment.position + len(segment.columns))


class MessageRun(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of a partition that stand together, in the clear, and where they stand."""

    partition: int
    name: str
    start: Offset
    created_at: Instant
    lane: int
    position: int
    count: int
    columns: Columns


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the ranges: what was found, what was removed, and how far it goes in each lane."""

    runs: list[MessageRun]
    missing: list[Range]
    lanes: Lanes


def behind(heads: Mapping[int, int], lanes: Mapping[int, int]) -> int:
    """How many messages lie between a place and the heads."""
    return sum(max(0, head - lanes.get(lane, 0)) for lane, head in heads.items())


def share_out(waiting: Mapping[K, int], most: int) -> dict[K, int]:
    """How many of each lane's waiting messages go into a batch of ``most``, pro rata.

    At least one of each lane that has any, so none is left behind for ever.
    """
    total = sum(waiting.values())
    if total <= most:
        return dict(waiting)
    return {lane: max(1, count * most // total) for lane, count in waiting.items() if count}
