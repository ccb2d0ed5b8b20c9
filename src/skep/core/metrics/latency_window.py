"""How long messages took from their push to their ack, by minute, queue and group."""

from collections import deque
from typing import NamedTuple, TypeAlias
from uuid import uuid4

import msgspec

from skep.core.metrics.counters import MINUTE, OTHERS
from skep.model.latency import Sketch
from skep.model.name import Instant
from skep.store.clock import Clock

MAX_SKETCHES = 5_000
"""Groups of a queue that are counted separately in a minute."""

MAX_MINUTES = 60
"""Minutes that wait for a store that cannot be written."""


class LatencyKey(NamedTuple):
    queue: str
    group: str


ByPlace: TypeAlias = dict[LatencyKey, Sketch]


class Minute(msgspec.Struct, frozen=True):
    """What happened in a minute, or a part of it if the clock was set back."""

    number: int
    id: str
    by_place: ByPlace


class LatencyWindow:
    """The minute that is now, and those that are over until they are ``kept``."""

    def __init__(self, clock: Clock, *, max_sketches: int = MAX_SKETCHES) -> None:
        self._max_sketches = max_sketches
        self._over: deque[Minute] = deque(maxlen=MAX_MINUTES)
        self._open = _begin(clock.now())

    def begin(self, now: Instant) -> None:
        """What is counted from here on happened at ``now``."""
        if self._open.number != now // MINUTE:
            if self._open.by_place:
                self._over.append(self._open)
            self._open = _begin(now)

    def of(self, queue: str, group: str) -> Sketch:
        """The sketch of a group in a queue to count in; one for all that are too many."""
        by_place = self._open.by_place
        sketch = by_place.get(LatencyKey(queue, group))
        if sketch is None:
            full = len(by_place) >= self._max_sketches
            place = LatencyKey(OTHERS, OTHERS) if full else LatencyKey(queue, group)
            sketch = by_place.setdefault(place, {})
        return sketch

    @property
    def over(self) -> list[Minute]:
        """Those that are not in the store yet."""
        return list(self._over)

    @property
    def all(self) -> list[Minute]:
        return [*self._over, self._open]

    def kept(self, minute: Minute) -> None:
        """It is in the store now."""
        if minute in self._over:
            self._over.remove(minute)


def _begin(now: Instant) -> Minute:
    return Minute(now // MINUTE, uuid4().hex, {})
