"""The clock of a store, which decides when a lease ends; tests pass their own."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from skep.model.name import SECOND, Instant


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """The current time, and callbacks at a time."""

    def now(self) -> Instant: ...

    def call_at(self, when: Instant, callback: Callable[[], None]) -> Timer:
        """Call ``callback`` on the event loop at ``when``, never earlier."""
        ...


class SystemClock:
    """The wall clock at the start of the process, advanced by a monotonic clock.

    A step of the wall clock would end leases early or keep them for hours; here it has no effect
    until the process restarts. Time in which the machine is suspended counts.
    """

    def __init__(self) -> None:
        self._skew = time.time_ns() - _steady_ns()

    def now(self) -> Instant:
        return (_steady_ns() + self._skew) // 1000

    def call_at(self, when: Instant, callback: Callable[[], None]) -> Timer:
        # A millisecond late rather than early: an early callback would find nothing due.
        delay = max(0, when - self.now()) / SECOND + 0.001
        return asyncio.get_running_loop().call_later(delay, callback)


# A partial object costs no Python call: the clock is read several times for each pop and ack.
_steady_ns: Callable[[], int] = (
    partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic_ns
)
