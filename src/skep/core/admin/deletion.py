"""Deletes the rows of deleted queues and groups in the background."""

import asyncio
import logging

from skep.core.aio import PeriodicTask
from skep.store.protocol import RetentionStore

LOOK_SECONDS = 1.0
"""How often the list of deleted queues is read."""
PAUSE_SECONDS = 0.005
"""The pause between steps. A step takes about as long, so requests get half of the time."""

_log = logging.getLogger("skep.broker")


class Remover:
    def __init__(self, store: RetentionStore) -> None:
        self._store = store
        self._task = PeriodicTask(
            self._purge, "could not delete rows of deleted queues and groups, retrying", _log
        )

    def start(self) -> None:
        self._task.start(LOOK_SECONDS)

    async def stop(self) -> None:
        await self._task.stop()

    async def run_to_completion(self, *, pause: float = 0) -> None:
        """Delete everything that is listed, with a pause after each step."""
        has_more = True
        while has_more:
            has_more = await self._store.purge()
            await asyncio.sleep(pause)

    async def _purge(self) -> None:
        await self.run_to_completion(pause=PAUSE_SECONDS)
