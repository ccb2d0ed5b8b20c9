"""Recent segments, bounded in bytes: consumers that keep up never read from the store."""

import bisect
from collections import OrderedDict

from skep.model.name import Offset
from skep.model.segment import Segment, until_enough

_PER_SEGMENT = 600
_PER_MESSAGE = 100
_PER_MESSAGE_READ = 8
"""Bytes that a segment and a message cost besides the payloads. What was pushed here is kept as
the objects it came in; what was read is one buffer."""


class SegmentCache:
    """The newest segments of each partition, and those that slower consumers read last.

    What retention removes stays until it is evicted: no cursor points there any more.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity * 2 // 3
        self._size = 0
        self._tails: dict[int, list[Segment]] = {}
        self._order: OrderedDict[tuple[int, Offset], None] = OrderedDict()
        """The segments in the tails, oldest first."""
        self._read: OrderedDict[int, Segment] = OrderedDict()
        self._read_capacity = capacity // 3
        self._read_size = 0

    def append(self, segment: Segment) -> None:
        """Remember a segment that was just committed."""
        tail = self._tails.get(segment.partition)
        if tail and tail[-1].end != segment.start:
            # Another server has put something between them.
            self._forget_tail(segment.partition)
        self._tails.setdefault(segment.partition, []).append(segment)
        self._order[segment.partition, segment.start] = None
        self._size += _weight(segment, _PER_MESSAGE)
        while self._size > self._capacity:
            self._forget_oldest()

    def remember(self, segment: Segment) -> None:
        """Remember a segment that was read from the store: the next pop may go on in it."""
        self._forget_read(segment.partition)
        self._read[segment.partition] = segment
        self._read_size += _weight(segment, _PER_MESSAGE_READ)
        while self._read_size > self._read_capacity:
            self._forget_read(next(iter(self._read)))

    def find(self, partition: int, offset: Offset, *, messages: int, size: int) -> list[Segment]:
        """What ``Store.read`` would give, if it is all known; else nothing."""
        tail = self._tails.get(partition)
        if tail and tail[0].start <= offset < tail[-1].end:
            index = bisect.bisect_right(tail, offset, key=_start) - 1
            found = until_enough(tail[index:], offset, messages=messages, size=size)
            # What another server appended behind it is not here.
            is_enough = found[-1] is not tail[-1] or found[-1].end - offset >= messages
            if is_enough or sum(segment.size for segment in found) >= size:
                return found
            return []
        read = self._read.get(partition)
        if read and read.start <= offset and read.end - offset >= messages:
            return [read]
        return []

    def drop(self, partition: int) -> None:
        """Forget a partition because a message of it was changed."""
        self._forget_tail(partition)
        self._forget_read(partition)

    def clear(self) -> None:
        for partition in [*self._tails, *self._read]:
            self.drop(partition)

    def _forget_tail(self, partition: int) -> None:
        for segment in self._tails.pop(partition, ()):
            del self._order[partition, segment.start]
            self._size -= _weight(segment, _PER_MESSAGE)

    def _forget_oldest(self) -> None:
        (partition, _), _ = self._order.popitem(last=False)
        tail = self._tails[partition]
        self._size -= _weight(tail.pop(0), _PER_MESSAGE)
        if not tail:
            del self._tails[partition]

    def _forget_read(self, partition: int) -> None:
        segment = self._read.pop(partition, None)
        if segment:
            self._read_size -= _weight(segment, _PER_MESSAGE_READ)


def _start(segment: Segment) -> Offset:
    return segment.start


def _weight(segment: Segment, per_message: int) -> int:
    return segment.size + per_message * len(segment.columns) + _PER_SEGMENT
