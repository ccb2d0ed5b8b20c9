"""The end of a partition while a round appends to it, and the resulting segments."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from skep.model.name import Instant, Offset
from skep.model.queue import Partition
from skep.model.segment import Columns, Segment, concat

MAX_SEGMENT_MESSAGES = 500
MAX_SEGMENT_BYTES = 128 << 10
"""A pop reads whole segments, so they stay small."""


@dataclass(slots=True)
class PartitionTail:
    """A partition before the round, and what the round appends to it."""

    partition: Partition
    end: Offset
    parts: list[Columns] = field(default_factory=list)

    def append(self, columns: Columns) -> list[Offset]:
        """Append messages; return their offsets."""
        first = self.end
        self.parts.append(columns)
        self.end += len(columns.payloads)
        return list(range(first, self.end))

    def time(self, now: Instant) -> Instant:
        """The time of the appended messages; never before that of the last one."""
        return max(now, self.partition.newest_at)

    def moved(self, now: Instant) -> Partition:
        """The partition after the append."""
        was_empty = self.partition.start == self.partition.end
        now = self.time(now)
        return replace(
            self.partition,
            end=self.end,
            newest_at=now,
            first_at=now if was_empty else self.partition.first_at,
        )

    def segments(self, *, lane: int, now: Instant, position: int) -> list[Segment]:
        """The appended segments, from a position of the journal on."""
        start = self.partition.end
        now = self.time(now)
        made: list[Segment] = []
        for columns, size in split(concat(self.parts)) if self.parts else ():
            made.append(
                Segment(
                    queue=self.partition.queue,
                    partition=self.partition.number,
                    start=start,
                    created_at=now,
                    lane=lane,
                    position=position,
                    size=size,
                    columns=columns,
                )
            )
            start += len(columns.payloads)
            position += len(columns.payloads)
        return made


def split(columns: Columns) -> Iterable[tuple[Columns, int]]:
    """Split messages into pieces of at most one segment, each with its size in bytes."""
    total = sum(map(len, columns.payloads))
    if len(columns.payloads) <= MAX_SEGMENT_MESSAGES and total <= MAX_SEGMENT_BYTES:
        return ((columns, total),)
    return _pieces(columns)


def _pieces(columns: Columns) -> Iterator[tuple[Columns, int]]:
    sizes = list(map(len, columns.payloads))
    start = size = 0
    for index, added in enumerate(sizes):
        full = size + added > MAX_SEGMENT_BYTES or index - start >= MAX_SEGMENT_MESSAGES
        if full and index > start:
            yield columns.cut(start, index), size
            start, size = index, 0
        size += added
    yield columns.cut(start, len(sizes)), size
