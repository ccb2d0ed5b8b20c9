"""Work that is done again and again, as long as a broker is open."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from skep.errors import SkepError


class PeriodicTask:
    """Says once, and not every time, that its work fails: a store may be away for hours."""

    def __init__(
        self, work: Callable[[], Awaitable[None]], complaint: str, log: logging.Logger
    ) -> None:
        self._work = work
        self._complaint = complaint
        self._log = log
        self._task: asyncio.Task[None] | None = None

    def start(self, interval: float) -> None:
        self._task = asyncio.create_task(self._run(interval))

    async def stop(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self, interval: float) -> None:
        failed = False
        while True:
            await asyncio.sleep(interval)
            try:
                await self._work()
                failed = False
            except Exception as error:
                if not failed:
                    log_failure(self._log, self._complaint, error)
                failed = True


def log_failure(log: logging.Logger, what: str, error: Exception) -> None:
    """Say what fails and why; how it came to that only if nobody expected it."""
    log.warning("%s: %s", what, error, exc_info=not isinstance(error, SkepError))
