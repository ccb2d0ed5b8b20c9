"""How far groups are behind: in messages, exactly, and in time, by reading what waits."""

import heapq
from collections.abc import Iterator
from datetime import datetime
from operator import itemgetter
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from skep.core.aio import yielding
from skep.core.cluster.peer_sync import PeerSync, current
from skep.core.journal.reader_group import Reader, ReaderGroups
from skep.core.state.group_lag import group_lag, partition_lag
from skep.core.state.partition_order import in_order
from skep.core.state.queue_state import GroupState, PartitionState, QueueState
from skep.core.state.registry import Registry
from skep.core.state.totals_updater import TotalsUpdater
from skep.core.visibility import QueueFilter
from skep.errors import NotFound
from skep.model.name import QUEUE_MODE, RESERVED, SECOND, Instant, Offset, check_text, to_datetime
from skep.model.stats import GroupLag, LaneLag, PartitionLag
from skep.store.protocol import Store

_READS = 100
"""Partitions that are read to say how old a group's oldest message is."""

_Candidate: TypeAlias = tuple[Instant, int, GroupState, PartitionState]


class QueueBacklog(msgspec.Struct, frozen=True, kw_only=True):
    """What a group still has to read of a queue, in all and by partition."""

    backlog: int
    partitions_with_backlog: int
    partitions: list[tuple[str, int]]


class LaggingPartition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition in which a group is behind."""

    queue: str
    group: str
    lag: PartitionLag


class GroupLagReader:
    def __init__(
        self,
        store: Store,
        registry: Registry,
        peer_sync: PeerSync,
        totals_updater: TotalsUpdater,
        readers: ReaderGroups,
    ) -> None:
        self._peer_sync = peer_sync
        self._store = store
        self._registry = registry
        self._totals_updater = totals_updater
        self._readers = readers

    @current
    async def of(self, group: str, visible: QueueFilter) -> list[str]:
        """The queues that somebody sees and a group has popped from, by name."""
        check_text("group", group)
        return [name for name, state in self._seen(visible) if group in state.groups]

    @current
    async def find(self, group: str, visible: QueueFilter) -> list[str]:
        """As ``of``, but there must be one."""
        found = await self.of(group, visible)
        if not found:
            raise NotFound(f"group {group!r} has never popped from any queue")
        return found

    @current
    async def find_all(self, group: str, visible: QueueFilter) -> list[str]:
        """The queues that a group has popped from, or whose journals it reads."""
        reader = await self._readers.find(group)
        found = [
            name
            for name, state in self._seen(visible)
            if group in state.groups or (reader and reader.lanes(state) is not None)
        ]
        if not found:
            raise NotFound(f"there is no group {group!r}")
        return found

    @current
    async def groups(self, visible: QueueFilter) -> list[GroupLag]:
        """Every group of every queue that somebody sees, and how far it is."""
        readers = await self._readers.all()
        found: list[GroupLag] = []
        async for _, state in yielding(self._seen(visible)):
            found += [await self._lag(group) for _, group in sorted(state.groups.items())]
            found += await self._readers.lags(state, readers)
        return found

    @current
    async def group(self, queue: str, group: str) -> GroupLag:
        """How far a group is in one queue."""
        state = self._registry.queue(queue)
        reader = None if group in state.groups else await self._readers.find(group)
        lags = await self._readers.lags(state, [reader]) if reader else []
        return lags[0] if lags else await self._lag(self._registry.group(queue, group))

    @current
    async def partitions(
        self, queue: str, group: str, *, offset: int = 0, limit: int
    ) -> list[PartitionLag]:
        """How far a group is in partitions of a queue, oldest partition first.

        A reader group has lanes instead of partitions: see ``lanes``.
        """
        if await self._reader(queue, group) is not None:
            return []
        state = self._registry.group(queue, group)
        now = self._store.clock.now()
        some = (await in_order(state.queue))[offset : offset + limit]
        return [
            await self._exactly(partition_lag(state, partition, now))
            async for partition in yielding(some)
        ]

    @current
    async def lanes(self, queue: str, group: str) -> list[LaneLag]:
        """How far a reader group is in each lane of a queue; empty for a group that pops."""
        reader = await self._reader(queue, group)
        return await self._readers.lanes(self._registry.queue(queue), reader) if reader else []

    async def _reader(self, queue: str, group: str) -> Reader | None:
        """The reader group of a queue; None if the group pops from it, or does not read it."""
        state = self._registry.queue(queue)
        reader = None if group in state.groups else await self._readers.find(group)
        return reader if reader and reader.lanes(state) is not None else None

    @current
    async def lagging(
        self, visible: QueueFilter, *, seconds: float, limit: int
    ) -> list[LaggingPartition]:
        """Where messages wait at least so long, the oldest first."""
        now = self._store.clock.now()
        horizon = now - int(seconds * SECOND)
        candidates: list[_Candidate] = []
        async for _, state in yielding(self._seen(visible)):
            for group in list(state.groups.values()):
                async for partition in yielding(list(state.partitions.values())):
                    oldest_at = group.oldest_at(partition, group.consumer(partition))
                    if group.pending(partition) and oldest_at <= horizon:
                        candidates.append((oldest_at, len(candidates), group, partition))
        # What is known is not later than the truth: so the oldest come first, as far as is known.
        heapq.heapify(candidates)
        found: list[LaggingPartition] = []
        async for _, _, group, partition in yielding(_popped(candidates)):
            if len(found) == limit:
                break
            lag = await self._exactly(partition_lag(group, partition, now))
            if lag.oldest_at is not None and lag.oldest_at <= to_datetime(horizon):
                queue = group.queue.config.name
                found.append(LaggingPartition(queue=queue, group=group.name, lag=lag))
        return sorted(found, key=lambda place: place.lag.oldest_at or _NEVER)

    @current
    async def backlog(self, queue: str, group: str, *, limit: int) -> QueueBacklog:
        """What a group still has to read.

        If nobody has popped from the queue without naming a group, that group has all of it.
        """
        state = self._registry.queue(queue)
        if group == QUEUE_MODE and group not in state.groups:
            return await _whole_backlog(state, limit)
        known = self._registry.group(queue, group)
        await self._totals_updater.catch_up(state)
        backlog, waiting = known.backlog - known.acked, len(known.totals.waiting)
        partitions: list[tuple[str, int]] = []
        async for partition in yielding(await in_order(state) if waiting else ()):
            if len(partitions) == min(limit, waiting):
                break
            if pending := known.pending(partition):
                partitions.append((partition.name, pending))
        return QueueBacklog(backlog=backlog, partitions_with_backlog=waiting, partitions=partitions)

    def _seen(self, visible: QueueFilter) -> list[tuple[str, QueueState]]:
        """The queues that somebody sees, by name, without those that are the broker's own."""
        self._registry.check_open()
        return [
            (name, state)
            for name, state in sorted(self._registry.queues.items())
            if visible(name) and not name.startswith(RESERVED)
        ]

    async def _lag(self, group: GroupState) -> GroupLag:
        await self._totals_updater.catch_up(group.queue)
        lag = group_lag(group)
        return replace(lag, oldest_at=await self._oldest(group))

    async def _oldest(self, group: GroupState) -> datetime | None:
        """Since when the oldest message of all waits.

        What is known in memory is not later than that: so the oldest by what is known are read,
        until no other can be older. If those are too many, what is known of the next one counts.
        What was read is kept, so that the next request goes on with others.
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
        """Partitions whose messages are the oldest by what is known, one more than are read."""
        known = map(self._registry.partitions.get, group.totals.oldest(_READS + 1))
        found = [
            (group.oldest_at(partition, group.consumer(partition)), partition)
            for partition in known
            if partition is not None
        ]
        return sorted(found, key=itemgetter(0))

    async def _read_age(self, group: GroupState, partition: PartitionState) -> Instant | None:
        cursor = group.consumer(partition).cursor
        created_at = await self._created_at(partition.number, cursor)
        known = group.consumers.get(partition.number)
        if created_at is not None and known is not None and known.cursor == cursor:
            self._registry.adjust(group, partition, oldest_at=created_at)
        return created_at

    async def _exactly(self, lag: PartitionLag) -> PartitionLag:
        """The place with the very age of its oldest message."""
        if not lag.backlog:
            return lag
        created_at = await self._created_at(lag.number, lag.cursor)
        return lag if created_at is None else replace(lag, oldest_at=to_datetime(created_at))

    async def _created_at(self, partition: int, offset: Offset) -> Instant | None:
        segments = await self._store.read(partition, offset, messages=1, size=1)
        return segments[0].created_at if segments else None


def _popped(heap: list[_Candidate]) -> Iterator[_Candidate]:
    """The entries of a heap, the smallest first."""
    while heap:
        yield heapq.heappop(heap)


async def _whole_backlog(queue: QueueState, limit: int) -> QueueBacklog:
    """All of a queue, for a group that has never popped from it."""
    waiting = 0
    partitions: list[tuple[str, int]] = []
    async for partition in yielding(await in_order(queue)):
        if partition.end > partition.start:
            waiting += 1
            if len(partitions) < limit:
                partitions.append((partition.name, partition.end - partition.start))
    return QueueBacklog(backlog=queue.kept, partitions_with_backlog=waiting, partitions=partitions)


_NEVER = to_datetime(1 << 57)
