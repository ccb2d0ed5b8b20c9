"""Removing what is old: messages past their retention or that waited too long, keys, history,
latencies."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from skep.core.admin.queue import Queues
from skep.core.aio import log_failure, yielding
from skep.core.cautious_clock import CautiousClock
from skep.core.cluster.peer_sync import PeerSync
from skep.core.consume.eviction import Evictor
from skep.core.journal.reader_group import ReaderGroups
from skep.core.metrics.latency_history import LatencyHistory
from skep.core.sink.sink import Sink
from skep.core.state.queue_state import PartitionState, QueueState
from skep.core.state.registry import Registry
from skep.core.state.scheduler import Scheduler
from skep.errors import Corrupted
from skep.model.journal import Lanes
from skep.model.name import SECOND, Instant, Offset
from skep.model.queue import QueueOptions
from skep.store.protocol import Store

RETENTION = "retention"
COMPLETED = "completed"
KEEP_OUTCOMES = 24 * 3600 * SECOND
"""How long a transaction may be repeated under its idempotency key."""

KEEP_REMOVALS = 90 * 24 * 3600 * SECOND
"""How far the retention history reaches back."""

_STEP = 1000
_HISTORIES = 100
"""Queues whose history is swept at a time."""
_log = logging.getLogger("skep.sweeper")


class Sweeper:
    """Sweeps in small steps, so that nobody waits for it."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        scheduler: Scheduler,
        peer_sync: PeerSync,
        queues: Queues,
        evictor: Evictor,
        staging: Sink,
        readers: ReaderGroups,
        latencies: LatencyHistory,
    ) -> None:
        self._store = store
        self._registry = registry
        self._scheduler = scheduler
        self._peer_sync = peer_sync
        self._queues = queues
        self._evictor = evictor
        self._staging = staging
        self._readers = readers
        self._latencies = latencies
        self._history = 0
        """How many queues' histories were swept in this turn."""
        self._task: asyncio.Task[None] | None = None

    def start(self, interval: float) -> None:
        self._task = asyncio.create_task(self._run(interval))

    async def stop(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def sweep(self, now: Instant | None = None) -> int:
        """Remove what is due; return how many messages left their queues."""
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
        await self._staging.sweep()
        await self._latencies.sweep(now)
        return removed

    def _next_histories(self, queues: Sequence[QueueState]) -> Sequence[QueueState]:
        """The queues whose history is swept this time: some, because it reaches back for months."""
        start = self._history % max(1, len(queues))
        self._history = start + _HISTORIES
        return queues[start : start + _HISTORIES]

    async def _run(self, interval: float) -> None:
        clock = CautiousClock(self._store.clock)
        # A sink whose server died waits for nothing else.
        await self._try(self._staging.sweep, interval)
        while True:
            await asyncio.sleep(interval)
            await self._try(partial(self.sweep, clock.now()), interval)

    async def _try(self, sweep: Callable[[], Awaitable[object]], interval: float) -> None:
        try:
            if await self._store.acquire_leadership("sweep", 3 * interval):
                await sweep()
        except Exception as error:
            log_failure(_log, f"sweeping stopped early; it starts again in {interval} s", error)

    async def _sweep_queue(self, queue: QueueState, now: Instant) -> int:
        removed = 0
        if queue.config.options.retention_enabled or queue.config.options.max_wait_time_seconds:
            # Another server may have configured it otherwise, or moved a group back.
            await self._peer_sync.complete()
        # Once for all partitions: options that change meanwhile may wait for other readers.
        options = queue.config.options
        readers = await self._readers_of(queue, options)
        async for partition in yielding(list(queue.partitions.values())):
            try:
                removed += await self._sweep_partition(partition, options, now, readers)
            except Corrupted as error:
                # It must not keep what comes after it from being swept.
                _log.error("%s/%s was not swept: %s", queue.config.name, partition.name, error)
        return removed

    async def _readers_of(self, queue: QueueState, options: QueueOptions) -> Sequence[Lanes]:
        """How far the readers of a queue's journal are, if something is to wait for them."""
        if not options.retention_enabled or not options.completed_retention_seconds:
            return ()
        found = [reader.lanes(queue) for reader in await self._readers.all()]
        return [lanes for lanes in found if lanes is not None]

    async def _sweep_history(self, queue: QueueState, now: Instant) -> None:
        number, horizon = queue.config.number, now - KEEP_REMOVALS
        try:
            while await self._store.forget_removals(number, horizon, limit=_STEP) == _STEP:
                pass
        except Corrupted as error:
            _log.error("the history of %s was not swept: %s", queue.config.name, error)

    async def _sweep_partition(
        self,
        partition: PartitionState,
        options: QueueOptions,
        now: Instant,
        readers: Sequence[Lanes],
    ) -> int:
        removed = 0
        if options.max_wait_time_seconds:
            removed += await self._evict(partition)
        if options.retention_enabled:
            removed += await self._retain(partition, options, now, readers)
        return removed

    async def _evict(self, partition: PartitionState) -> int:
        evicted = 0
        for group in list(partition.queue.groups.values()):
            if partition.number in group.claimed:
                continue  # a pop is at it, and evicts too
            group.claimed.add(partition.number)
            try:
                evicted += await self._evictor.evict(group, partition)
            finally:
                group.claimed.discard(partition.number)
                self._scheduler.refresh(group, partition)
        return evicted

    async def _retain(
        self,
        partition: PartitionState,
        options: QueueOptions,
        now: Instant,
        readers: Sequence[Lanes],
    ) -> int:
        removed = 0
        for seconds, kind in (
            (options.retention_seconds, RETENTION),
            (options.completed_retention_seconds, COMPLETED),
        ):
            horizon = now - seconds * SECOND
            if not seconds or partition.start == partition.end or partition.first_at >= horizon:
                continue
            before = await self._store.offset_at(partition.number, horizon)
            if kind == COMPLETED:
                before = await self._done(partition, before, readers)
            removed += await self._queues.truncate(partition, before, kind)
        return removed

    async def _done(
        self, partition: PartitionState, before: Offset, readers: Sequence[Lanes]
    ) -> Offset:
        """Up to where every group has done what a partition has before an offset."""
        cursors = [group.consumer(partition).cursor for group in partition.queue.groups.values()]
        if not cursors and not readers:
            return partition.start
        before = min([before, *cursors])
        return await self._readers.passed(partition, before, readers) if readers else before
