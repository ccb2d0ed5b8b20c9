"""What has happened, counted by the minute and by queue, for a day, in memory."""

from collections import deque
from collections.abc import Collection, Iterable, Iterator

import msgspec

from skep.core.visibility import QueueFilter
from skep.model.name import SECOND, Instant
from skep.model.tally import Bucket, Tally
from skep.store.clock import Clock

MINUTE = 60 * SECOND
KEPT_MINUTES = 24 * 60
MAX_TALLIES = 50_000
"""Tallies of a queue in a minute. What exceeds that costs the oldest minutes their queues."""

OTHERS = ""
"""Stands for all queues of a minute that is no longer known by queue."""


class _Minute(msgspec.Struct):
    number: int
    by_queue: dict[str, Tally]


class QueueCounters:
    """Counters since the start, and for each of the last ``KEPT_MINUTES`` minutes."""

    def __init__(self, clock: Clock, *, max_tallies: int = MAX_TALLIES) -> None:
        self._clock = clock
        self._max_tallies = max_tallies
        self._minutes: deque[_Minute] = deque([_Minute(clock.now() // MINUTE, {})])
        self._tallies = 0
        self._before: dict[str, Tally] = {}
        """What happened to queues in all minutes that are over."""
        self.started_at = clock.now()

    def begin(self, now: Instant) -> None:
        """What is counted from here on happened at ``now``."""
        number = now // MINUTE
        if self._minutes[-1].number != number:
            self._end_minute()
            self._begin_minute(number)

    def of(self, queue: str) -> Tally:
        """The tally of a queue to count in."""
        minute = self._minutes[-1].by_queue
        tally = minute.get(queue)
        if tally is None:
            tally = minute[queue] = Tally()
            self._tallies += 1
        return tally

    # Looking.

    def total(self, sees: QueueFilter) -> Tally:
        """What happened to some queues since the start."""
        return _sum(self.totals(sees).values())

    def totals(self, sees: QueueFilter) -> dict[str, Tally]:
        """What happened to each of some queues since the start."""
        found: dict[str, Tally] = {}
        for tallies in (self._before, self._minutes[-1].by_queue):
            for queue, tally in tallies.items():
                if sees(queue):
                    found.setdefault(queue, Tally()).add(tally)
        return found

    def series(
        self, sees: QueueFilter, start: Instant, stop: Instant, *, minutes: int
    ) -> list[Bucket]:
        """Buckets of ``minutes`` minutes between two instants, as far back as there are counts."""
        width = minutes * MINUTE
        start = max(start, self._known_since())
        stop = min(stop, self._clock.now())
        buckets = {at: Tally() for at in range(start // width * width, stop + 1, width)}
        for minute in self._between(start, stop):
            bucket = buckets.get(minute.number * MINUTE // width * width)
            if bucket is not None:
                bucket.add(_sum(t for queue, t in minute.by_queue.items() if sees(queue)))
        return [Bucket(at, tally) for at, tally in buckets.items()]

    def by_queue(self, sees: QueueFilter, start: Instant, stop: Instant) -> dict[str, Tally]:
        """What happened to each of some queues between two instants."""
        series = self.series_by_queue(sees, start, stop, minutes=KEPT_MINUTES)
        return {
            queue: _sum(bucket.tally for bucket in buckets) for queue, buckets in series.items()
        }

    def series_by_queue(
        self, sees: QueueFilter, start: Instant, stop: Instant, *, minutes: int
    ) -> dict[str, list[Bucket]]:
        """Buckets of each of some queues, only those in which something happened to it."""
        width = minutes * MINUTE
        found: dict[str, list[Bucket]] = {}
        for minute in self._between(start, stop):
            at = minute.number * MINUTE // width * width
            for queue, tally in minute.by_queue.items():
                if queue == OTHERS or not sees(queue):
                    continue
                buckets = found.setdefault(queue, [])
                if not buckets or buckets[-1].start != at:
                    buckets.append(Bucket(at, Tally()))
                buckets[-1].tally.add(tally)
        return found

    def lately(self, sees: QueueFilter) -> tuple[Tally, float]:
        """What happened in this minute and the one before, and how many seconds that is."""
        now = self._clock.now()
        start = max((now // MINUTE - 1) * MINUTE, self.started_at)
        buckets = self.series(sees, start, now, minutes=1)
        return _sum(bucket.tally for bucket in buckets), max(1.0, (now - start) / SECOND)

    def keep_only(self, queues: Collection[str]) -> None:
        """Forget deleted queues, once they are the larger part of what is counted."""
        if len(self._before) > 2 * len(queues) + 1000:
            self._before = {name: t for name, t in self._before.items() if name in queues}

    def _between(self, start: Instant, stop: Instant) -> Iterator[_Minute]:
        for minute in self._minutes:
            if start - MINUTE < minute.number * MINUTE <= stop:
                yield minute

    # Keeping it small.

    def _end_minute(self) -> None:
        for queue, tally in self._minutes[-1].by_queue.items():
            self._before.setdefault(queue, Tally()).add(tally)

    def _begin_minute(self, number: int) -> None:
        self._minutes.append(_Minute(number, {}))
        while self._minutes[0].number <= number - KEPT_MINUTES:
            self._tallies -= len(self._minutes.popleft().by_queue)
        if self._tallies > self._max_tallies:
            self._fold()

    def _fold(self) -> None:
        """Let the oldest minutes forget which queue it was."""
        for minute in self._minutes:
            if self._tallies <= self._max_tallies // 2:
                break
            before = len(minute.by_queue)
            if before > 1:
                minute.by_queue = {OTHERS: _sum(minute.by_queue.values())}
                self._tallies -= before - 1

    def _known_since(self) -> Instant:
        return max(self.started_at, self._clock.now() - KEPT_MINUTES * MINUTE)


def _sum(tallies: Iterable[Tally]) -> Tally:
    whole = Tally()
    for tally in tallies:
        whole.add(tally)
    return whole
