"""The lag of groups with the exact age of their oldest message, read from the store.

The age known in memory is a lower bound of the creation time: the message is not older than that.
"""

import heapq
from collections.abc import Iterable, Iterator
from datetime import datetime
from operator import itemgetter
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from skep.core.aio import yielding
from skep.core.state.group_lag import group_lag, partition_lag
from skep.core.state.queue_state import GroupState, PartitionState, QueueState
from skep.core.state.registry import Registry
from skep.core.state.totals_updater import TotalsUpdater
from skep.model.name import Instant, Offset, to_datetime
from skep.model.stats import GroupLag, PartitionLag
from skep.store.protocol import LogStore

_READS = 100
"""Partitions that are read to find a group's oldest message."""

_NEVER = to_datetime(1 << 57)
_Candidate: TypeAlias = tuple[Instant, int, GroupState, PartitionState]


class LaggingPartition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition in which a group is behind."""

    queue: str
    group: str
    lag: PartitionLag


class ExactLagReader:
    def __init__(self, store: LogStore, registry: Registry, totals_updater: TotalsUpdater) -> None:
        self._store = store
        self._registry = registry
        self._totals_updater = totals_updater

    async def of_group(self, group: GroupState) -> GroupLag:
        """The lag of a group in its queue."""
        await self._totals_updater.catch_up(group.queue)
        lag = group_lag(group)
        return replace(lag, oldest_at=await self._oldest(group))

    async def of_partition(
        self, group: GroupState, partition: PartitionState, now: Instant
    ) -> PartitionLag:
        """The lag of a group in one partition."""
        lag = partition_lag(group, partition, now)
        if not lag.backlog:
            return lag
        created_at = await self._created_at(lag.number, lag.cursor)
        return lag if created_at is None else replace(lag, oldest_at=to_datetime(created_at))

    async def lagging(
        self, queues: Iterable[QueueState], horizon: Instant, now: Instant, *, limit: int
    ) -> list[LaggingPartition]:
        """Partitions with a pending message created at ``horizon`` or before, oldest first."""
        candidates = await _candidates(queues, horizon)
        heapq.heapify(candidates)
        lagging: list[LaggingPartition] = []
        async for _, _, group, partition in yielding(_popped(candidates)):
            if len(lagging) == limit:
                break
            lag = await self.of_partition(group, partition, now)
            if lag.oldest_at is not None and lag.oldest_at <= to_datetime(horizon):
                name = group.queue.config.name
                lagging.append(LaggingPartition(queue=name, group=group.name, lag=lag))
        return sorted(lagging, key=lambda each: each.lag.oldest_at or _NEVER)

    async def _oldest(self, group: GroupState) -> datetime | None:
        """When the oldest pending message of a group was created.

        Partitions are read in the order of their known ages, until no other can be older. After
        ``_READS`` of them the known age of the next one is returned. Ages that were read are kept
        in memory, so that the next call continues with other partitions.
        """
        oldest: Instant | None = None
        for index, (known_at, partition) in enumerate(self._oldest_known(group)):
            if oldest is not None and known_at >= oldest:
                break
            if index == _READS:
                return to_datetime(known_at)
            exact = await self._read_age(group, partition) or known_at
            oldest = exact if oldest is None else min(oldest, exact)
        return None if oldest is None else to_datetime(oldest)

    def _oldest_known(self, group: GroupState) -> list[tuple[Instant, PartitionState]]:
        """Partitions by their known ages, oldest first, one more than are read."""
        partitions = map(self._registry.partitions.get, group.totals.oldest(_READS + 1))
        ages = [
            (group.oldest_at(partition, group.consumer(partition)), partition)
            for partition in partitions
            if partition is not None
        ]
        return sorted(ages, key=itemgetter(0))

    async def _read_age(self, group: GroupState, partition: PartitionState) -> Instant | None:
        cursor = group.consumer(partition).cursor
        created_at = await self._created_at(partition.number, cursor)
        consumer = group.consumers.get(partition.number)
        if created_at is not None and consumer is not None and consumer.cursor == cursor:
            self._registry.adjust(group, partition, oldest_at=created_at)
        return created_at

    async def _created_at(self, partition: int, offset: Offset) -> Instant | None:
        segments = await self._store.read(partition, offset, messages=1, size=1)
        return segments[0].created_at if segments else None


async def _candidates(queues: Iterable[QueueState], horizon: Instant) -> list[_Candidate]:
    """Partitions whose oldest message may have been created at ``horizon`` or before."""
    candidates: list[_Candidate] = []
    async for queue in yielding(queues):
        for group in list(queue.groups.values()):
            async for partition in yielding(list(queue.partitions.values())):
                oldest_at = group.oldest_at(partition, group.consumer(partition))
                if group.pending(partition) and oldest_at <= horizon:
                    candidates.append((oldest_at, len(candidates), group, partition))
    return candidates


def _popped(heap: list[_Candidate]) -> Iterator[_Candidate]:
    """The entries of a heap, the smallest first."""
    while heap:
        yield heapq.heappop(heap)
