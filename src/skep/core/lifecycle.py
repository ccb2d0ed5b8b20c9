"""Starting and stopping the parts of a broker, in order."""

import asyncio

from skep.core.metrics.latency_history import LOOK_SECONDS
from skep.core.state.totals_updater import COUNT_SECONDS
from skep.core.wiring import Parts
from skep.store.protocol import Store


class Lifecycle:
    def __init__(
        self,
        store: Store,
        parts: Parts,
        *,
        sweep_interval: float | None,
        follow_interval: float | None,
    ) -> None:
        self._store = store
        self._parts = parts
        self._sweep_interval = sweep_interval
        self._follow_interval = follow_interval
        self._stopping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load what is stored, then start the periodic tasks; stop again if that fails."""
        parts = self._parts
        try:
            await parts.peer_sync.begin()
            await parts.loader.load()
            await parts.maintenance.load()
        except BaseException:
            await self.stop()
            raise
        if self._follow_interval:
            parts.peer_sync.start(self._follow_interval)
            parts.outbox.start()
        if self._sweep_interval:
            parts.sweeper.start(self._sweep_interval)
            parts.latencies.start(LOOK_SECONDS)
            parts.totals_updater.start(COUNT_SECONDS)
            parts.remover.start()

    async def stop(self) -> None:
        """Accept no requests, finish those in progress, close the store.

        Once begun it runs to its end, even if the caller is cancelled.
        """
        self._parts.registry.close()
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop())
        await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        parts = self._parts
        try:
            await parts.outbox.stop()
            await parts.remover.stop()
            await parts.sweeper.stop()
            await parts.totals_updater.stop()
            await parts.latencies.stop()
            await parts.sink.stop()
            await parts.peer_sync.stop()
            await parts.loader.stop()
            await parts.maintenance.close()
            # Pops that were woken answer before the store is closed.
            await asyncio.sleep(0)
            await parts.committer.close()
            await parts.latencies.keep_rest()
        finally:
            parts.registry.release()
            await self._store.close()
