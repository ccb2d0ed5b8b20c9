"""One pass over what is old: expired messages, idempotency keys, history, stages, latencies."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from skep.core.admin.expiry import MessageExpiry
from skep.core.aio import log_failure, yielding
from skep.core.cautious_clock import CautiousClock
from skep.core.cluster.peer_sync import PeerSync
from skep.core.metrics.latency_history import LatencyHistory
from skep.core.sink.sink import Sink
from skep.core.state.queue_state import QueueState
from skep.core.state.registry import Registry
from skep.errors import Corrupted
from skep.model.name import SECOND, Instant
from skep.store.protocol import Store

KEEP_OUTCOMES = 24 * 3600 * SECOND
"""How long a transaction may be retried under its idempotency key."""

KEEP_REMOVALS = 90 * 24 * 3600 * SECOND
"""How long the retention history is kept."""

_STEP = 1000
_HISTORIES = 100
"""Queues whose history is swept in one pass."""
_log = logging.getLogger("skep.broker")


class Sweeper:
    """Sweeps in small steps, so that requests do not wait for it."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        peer_sync: PeerSync,
        expiry: MessageExpiry,
        sink: Sink,
        latencies: LatencyHistory,
    ) -> None:
        self._store = store
        self._registry = registry
        self._peer_sync = peer_sync
        self._expiry = expiry
        self._sink = sink
        self._latencies = latencies
        self._history = 0
        """The first queue whose history is swept in the next pass."""
        self._task: asyncio.Task[None] | None = None

    def start(self, interval: float) -> None:
        self._task = asyncio.create_task(self._run(interval))

    async def stop(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def sweep(self, now: Instant | None = None) -> int:
        """Delete what is due; return how many messages were deleted from their queues."""
        await self._peer_sync.complete()
        now = self._store.clock.now() if now is None else now
        removed = 0
        queues = list(self._registry.queues.values())
        async for queue in yielding(queues):
            removed += await self._sweep_queue(queue, now)
        async for queue in yielding(self._next_histories(queues)):
            await self._sweep_history(queue, now)
        horizon = now - KEEP_OUTCOMES
        while await self._store.forget_outcomes(horizon, limit=_STEP) == _STEP:
            pass
        await self._sink.sweep()
        await self._latencies.sweep(now)
        return removed

    def _next_histories(self, queues: Sequence[QueueState]) -> Sequence[QueueState]:
        """The queues whose history is swept in this pass: a few, because it spans months."""
        start = self._history % max(1, len(queues))
        self._history = start + _HISTORIES
        return queues[start : start + _HISTORIES]

    async def _run(self, interval: float) -> None:
        clock = CautiousClock(self._store.clock)
        # At once: a publication whose server died waits for nothing else.
        await self._try(self._sink.sweep, interval)
        while True:
            await asyncio.sleep(interval)
            await self._try(partial(self.sweep, clock.now()), interval)

    async def _try(self, sweep: Callable[[], Awaitable[object]], interval: float) -> None:
        try:
            if await self._store.acquire_leadership("sweep", 3 * interval):
                await sweep()
        except Exception as error:
            log_failure(_log, "sweep failed, retrying", error, delay=f"{interval:g}s")

    async def _sweep_queue(self, queue: QueueState, now: Instant) -> int:
        removed = 0
        if queue.config.options.retention_enabled or queue.config.options.max_wait_time_seconds:
            # Another server may have changed its configuration, or moved a group back.
            await self._peer_sync.complete()
        # Once for all partitions: changed options may have to wait for other readers.
        options = queue.config.options
        readers = await self._expiry.reader_positions(queue, options)
        async for partition in yielding(list(queue.partitions.values())):
            try:
                removed += await self._expiry.expire(partition, options, now, readers)
            except Corrupted as error:
                # Log it and sweep the next partition.
                _log.error(
                    "could not sweep a partition: queue=%s partition=%s error=%s",
                    queue.config.name,
                    partition.name,
                    error,
                )
        return removed

    async def _sweep_history(self, queue: QueueState, now: Instant) -> None:
        number, horizon = queue.config.number, now - KEEP_REMOVALS
        try:
            while await self._store.forget_removals(number, horizon, limit=_STEP) == _STEP:
                pass
        except Corrupted as error:
            _log.error(
                "could not sweep the retention history: queue=%s error=%s", queue.config.name, error
            )
