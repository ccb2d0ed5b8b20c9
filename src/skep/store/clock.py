"""One clock for everything that must agree on when a lease ends; it can be given."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from skep.model.name import SECOND, Instant


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """Tells the time, and calls back when it has come."""

    def now(self) -> Instant: ...

    def call_at(self, when: Instant, callback: Callable[[], None]) -> Timer:
        """Call ``callback`` on the event loop once ``when`` has come, not before."""
        ...


class SystemClock:
    """The wall clock at the start, carried on by a clock that nobody sets.

    A step of the wall clock would end leases early or keep them for hours; here it does
    nothing until the process is started again. The time the machine sleeps counts.
    """

    def __init__(self) -> None:
        self._skew = time.time_ns() - _steady_ns()

    def now(self) -> Instant:
        return (_steady_ns() + self._skew) // 1000

    def call_at(self, when: Instant, callback: Callable[[], None]) -> Timer:
        # A millisecond late rather than a hair early: an early call would find nothing due.
        delay = max(0, when - self.now()) / SECOND + 0.001
        return asyncio.get_running_loop().call_later(delay, callback)


# A partial object costs no Python call: the clock is read several times for each pop and ack.
_steady_ns: Callable[[], int] = (
    partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic_ns
)
