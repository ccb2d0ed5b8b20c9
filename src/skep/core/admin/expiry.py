"""Deletes messages that are past their retention, and dead-letters those that waited too long."""

from collections.abc import Sequence

from skep.core.admin.queue import Queues
from skep.core.consume.eviction import Evictor
from skep.core.journal.reader_group import ReaderGroups
from skep.core.state.queue_state import PartitionState, QueueState
from skep.core.state.scheduler import Scheduler
from skep.model.journal import Lanes
from skep.model.name import SECOND, Instant, Offset
from skep.model.queue import QueueOptions
from skep.store.protocol import LogStore

RETENTION = "retention"
COMPLETED = "completed"


class MessageExpiry:
    def __init__(
        self,
        store: LogStore,
        scheduler: Scheduler,
        queues: Queues,
        evictor: Evictor,
        readers: ReaderGroups,
    ) -> None:
        self._store = store
        self._scheduler = scheduler
        self._queues = queues
        self._evictor = evictor
        self._readers = readers

    async def reader_positions(self, queue: QueueState, options: QueueOptions) -> Sequence[Lanes]:
        """The positions of a queue's reader groups, if its retention waits for them."""
        if not options.retention_enabled or not options.completed_retention_seconds:
            return ()
        positions = [reader.lanes(queue) for reader in await self._readers.all()]
        return [lanes for lanes in positions if lanes is not None]

    async def expire(
        self,
        partition: PartitionState,
        options: QueueOptions,
        now: Instant,
        readers: Sequence[Lanes],
    ) -> int:
        """Evict and truncate what is due in a partition; return how many messages."""
        expired = 0
        if options.max_wait_time_seconds:
            expired += await self._evict(partition)
        if options.retention_enabled:
            expired += await self._truncate(partition, options, now, readers)
        return expired

    async def _evict(self, partition: PartitionState) -> int:
        evicted = 0
        for group in list(partition.queue.groups.values()):
            if partition.number in group.claimed:
                continue  # a pop is using it, and evicts too
            group.claimed.add(partition.number)
            try:
                evicted += await self._evictor.evict(group, partition)
            finally:
                group.claimed.discard(partition.number)
                self._scheduler.refresh(group, partition)
        return evicted

    async def _truncate(
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
                before = await self._completed(partition, before, readers)
            removed += await self._queues.truncate(partition, before, kind)
        return removed

    async def _completed(
        self, partition: PartitionState, before: Offset, readers: Sequence[Lanes]
    ) -> Offset:
        """The end of the messages before an offset that every group has completed."""
        cursors = [group.consumer(partition).cursor for group in partition.queue.groups.values()]
        if not cursors and not readers:
            return partition.start
        before = min([before, *cursors])
        return await self._readers.passed(partition, before, readers) if readers else before
