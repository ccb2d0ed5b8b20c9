"""The lanes of a queue as one sequence, in which every partition keeps its order.

Each server commits through its own lane, so the messages of a partition may be in several lanes,
and lanes are not ordered among each other. But a segment is always committed after the previous one
of its partition. If segments are taken in that order, a batch can end anywhere: no message is taken
before an earlier one of its partition. Of the remaining segments, the one that was committed first
is always the first of its lane and follows one that was taken, so there is always one to take.
"""

from collections import deque
from collections.abc import AsyncIterator, Iterable

from skep.errors import Corrupted
from skep.model.journal import Range, SegmentPlace
from skep.store.protocol import LogStore

FIRST_PAGE, PAGE = 32, 1024
"""Places of a lane that are read first, and at most; each read doubles the number."""


class Merge:
    """The segments of ranges, one range for each lane, with earlier ones of a partition first."""

    def __init__(self, store: LogStore, queue: int, ranges: Iterable[Range]) -> None:
        self._queue = queue
        self._lanes = {lane_range.lane: _Lane(store, queue, lane_range) for lane_range in ranges}

    async def places(self) -> AsyncIterator[SegmentPlace]:
        """The places of the segments, without those that were deleted."""
        while waiting := [
            place for lane in self._lanes.values() if (place := await lane.next()) is not None
        ]:
            ready = [place for place in waiting if self._is_ready(place)]
            if not ready:
                raise Corrupted(f"the lanes of queue {self._queue} wait for each other")
            first = min(ready, key=lambda place: (place.created_at, place.stands.lane))
            self._lanes[first.stands.lane].take()
            yield first

    def _is_ready(self, place: SegmentPlace) -> bool:
        """Whether the earlier segments of its partition, in these ranges, were taken."""
        if place.before is None or place.before.lane not in self._lanes:
            return True
        return self._lanes[place.before.lane].is_behind(place.before)


class _Lane:
    def __init__(self, store: LogStore, queue: int, lane_range: Range) -> None:
        self._store = store
        self._queue = queue
        self._lane = lane_range.lane
        self._end = lane_range.end
        self._at = lane_range.start
        self._limit = FIRST_PAGE
        self._upcoming: deque[SegmentPlace] = deque()

    async def next(self) -> SegmentPlace | None:
        """The next segment; None after the last."""
        if not self._upcoming and self._at < self._end:
            places = await self._store.read_places(
                self._queue, self._lane, self._at, limit=self._limit
            )
            self._limit = min(2 * self._limit, PAGE)
            self._upcoming.extend(each for each in places if each.stands.start < self._end)
            if not self._upcoming:
                self._at = self._end
        if not self._upcoming:
            return None
        # Anything before it was deleted.
        self._at = max(self._at, self._upcoming[0].stands.start)
        return self._upcoming[0]

    def take(self) -> None:
        self._at = min(self._upcoming.popleft().stands.end, self._end)

    def is_behind(self, segment: Range) -> bool:
        """Whether nothing of a segment is left in the range."""
        return segment.start >= self._end or self._at >= min(segment.end, self._end)
