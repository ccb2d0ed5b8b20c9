"""The database's clock, advanced by the local one between two readings."""

import asyncio
from collections.abc import Callable

from skep.model.name import SECOND, Instant
from skep.store.clock import SystemClock, Timer


class DatabaseClock:
    """An estimate of ``clock_timestamp()`` that needs no query.

    The time in a result was read between the request and its arrival. While the estimate is in
    that range it is kept; else it is moved to the nearer end.
    """

    def __init__(self) -> None:
        self._steady = SystemClock()
        self._ahead = 0
        """Microseconds that the database is ahead of this machine."""

    def now(self) -> Instant:
        return self._steady.now() + self._ahead

    def steady(self) -> Instant:
        """The local time, to be read before a query and passed to ``learn``."""
        return self._steady.now()

    def learn(self, database_time: Instant, asked_at: Instant) -> None:
        minimum, maximum = database_time - self._steady.now(), database_time - asked_at
        self._ahead = min(max(self._ahead, minimum), maximum)

    def call_at(self, when: Instant, callback: Callable[[], None]) -> Timer:
        # A millisecond late rather than early: an early callback would find nothing due.
        delay = max(0, when - self.now()) / SECOND + 0.001
        return asyncio.get_running_loop().call_later(delay, callback)
