"""Removing the rows of deleted queues, in the background."""

import asyncio
import logging

from skep.core.aio import PeriodicTask
from skep.store.protocol import RetentionStore

LOOK_SECONDS = 1.0
"""How often the list of deleted queues is looked at."""
PAUSE_SECONDS = 0.005
"""Between two steps. A step takes about as long, so clients have at least half of the time."""

_log = logging.getLogger("skep.remover")


class Remover:
    def __init__(self, store: RetentionStore) -> None:
        self._store = store
        self._repeating = PeriodicTask(
            self._purge, "removing rows of deleted queues and groups failed; retrying", _log
        )

    def start(self) -> None:
        self._repeating.start(LOOK_SECONDS)

    async def stop(self) -> None:
        await self._repeating.stop()

    async def run_to_completion(self, *, pause: float = 0) -> None:
        """Remove now what is listed, with a pause after each step."""
        has_more = True
        while has_more:
            has_more = await self._store.purge()
            await asyncio.sleep(pause)

    async def _purge(self) -> None:
        await self.run_to_completion(pause=PAUSE_SECONDS)
