"""The database's clock, carried on between two looks at it."""

import asyncio
from collections.abc import Callable

from skep.model.name import SECOND, Instant
from skep.store.clock import SystemClock, Timer


class DatabaseClock:
    """What ``clock_timestamp()`` says, as far as can be known without asking.

    Every answer tells the time somewhere between the question and its arrival. As long as our
    own reckoning lies in between it is kept; else it is moved just so far that it does.
    """

    def __init__(self) -> None:
        self._steady = SystemClock()
        self._ahead = 0
        """Microseconds that the database is ahead of this machine."""

    def now(self) -> Instant:
        return self._steady.now() + self._ahead

    def steady(self) -> Instant:
        """This machine's time, to be noted when a question is asked."""
        return self._steady.now()

    def learn(self, told: Instant, asked_at: Instant) -> None:
        least, most = told - self._steady.now(), told - asked_at
        self._ahead = min(max(self._ahead, least), most)

    def call_at(self, when: Instant, callback: Callable[[], None]) -> Timer:
        # A millisecond late rather than a hair early: an early call would find nothing due.
        delay = max(0, when - self.now()) / SECOND + 0.001
        return asyncio.get_running_loop().call_later(delay, callback)
