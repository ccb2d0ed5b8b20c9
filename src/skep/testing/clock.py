"""A clock that stands still until it is told to go on."""

import heapq
from collections.abc import Callable
from itertools import count

from skep.model.name import SECOND, Instant

NOON = 1_893_499_200 * SECOND
"""2030-01-01T12:00Z."""


class ManualTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self._callback = None

    def fire(self) -> None:
        if self._callback is not None:
            self._callback()


class ManualClock:
    """Time passes in ``advance`` and ``set`` only.

    What was asked for with ``call_at`` is called in there, before they return, in the order of
    time, and at that time: a callback sees its own instant as ``now``.
    """

    def __init__(self, start: Instant = NOON) -> None:
        self._now = start
        self._timers: list[tuple[Instant, int, ManualTimer]] = []
        self._order = count()

    def now(self) -> Instant:
        return self._now

    def call_at(self, when: Instant, callback: Callable[[], None]) -> ManualTimer:
        timer = ManualTimer(callback)
        heapq.heappush(self._timers, (when, next(self._order), timer))
        return timer

    def advance(self, seconds: float) -> None:
        self.set(self._now + round(seconds * SECOND))

    def set(self, instant: Instant) -> None:
        """Go to ``instant``; going back calls nobody who was not due already."""
        while self._timers and self._timers[0][0] <= instant:
            when, _, timer = heapq.heappop(self._timers)
            self._now = max(self._now, when)
            timer.fire()
        self._now = instant
