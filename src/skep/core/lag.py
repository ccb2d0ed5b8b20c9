"""How far groups are behind: in messages, exactly, and in time, by reading what waits."""

import asyncio
import heapq
from datetime import datetime

import msgspec
from msgspec.structs import replace

from skep.core.catalogue import Catalogue
from skep.core.following import Following, current
from skep.core.groups import group_lag, partition_lag
from skep.core.metrics import Sees
from skep.core.readers import Readers
from skep.core.state import GroupState, PartitionState, QueueState
from skep.core.turns import in_steps
from skep.errors import NotFound
from skep.model.names import QUEUE_MODE, RESERVED, SECOND, Instant, Offset, check_text, to_datetime
from skep.model.stats import GroupLag, PartitionLag
from skep.store.protocol import Store

_READS = 100
"""Partitions that are read to say how old a group's oldest message is."""
_STEP = 50
"""Reads before others have their turn."""


class Depth(msgspec.Struct, frozen=True, kw_only=True):
    """What a group still has to read of a queue, in all and by partition."""

    backlog: int
    partitions_with_backlog: int
    partitions: list[tuple[str, int]]


class LaggingPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A partition in which a group is behind."""

    queue: str
    group: str
    lag: PartitionLag


class Lags:
    def __init__(
        self, store: Store, catalogue: Catalogue, following: Following, readers: Readers
    ) -> None:
        self._following = following
        self._store = store
        self._catalogue = catalogue
        self._readers = readers

    @current
    async def of(self, group: str, sees: Sees) -> list[str]:
        """The queues that somebody sees and a group has popped from, by name."""
        check_text("group", group)
        return [name for name, state in self._seen(sees) if group in state.groups]

    @current
    async def find(self, group: str, sees: Sees) -> list[str]:
        """As ``of``, but there must be one."""
        found = await self.of(group, sees)
        if not found:
            raise NotFound(f"group {group!r} has never popped from any queue")
        return found

    @current
    async def find_all(self, group: str, sees: Sees) -> list[str]:
        """The queues that a group has popped from, or whose journals it reads."""
        reader = await self._readers.find(group)
        found = [
            name
            for name, state in self._seen(sees)
            if group in state.groups or (reader and reader.lanes(state) is not None)
        ]
        if not found:
            raise NotFound(f"there is no group {group!r}")
        return found

    @current
    async def groups(self, sees: Sees) -> list[GroupLag]:
        """Every group of every queue that somebody sees, and how far it is."""
        readers = await self._readers.all()
        found: list[GroupLag] = []
        for _, state in self._seen(sees):
            found += [await self._lag(group) for group in list(state.groups.values())]
            found += await self._readers.lags(state, readers)
        return found

    @current
    async def group(self, queue: str, group: str) -> GroupLag:
        """How far a group is in one queue."""
        state = self._catalogue.queue(queue)
        reader = None if group in state.groups else await self._readers.find(group)
        lags = await self._readers.lags(state, [reader]) if reader else []
        return lags[0] if lags else await self._lag(self._catalogue.group(queue, group))

    @current
    async def partitions(
        self, queue: str, group: str, *, offset: int = 0, limit: int
    ) -> list[PartitionLag]:
        """How far a group is in partitions of a queue, oldest partition first.

        A group that reads the journal knows no partitions, but lanes.
        """
        known = self._catalogue.queue(queue)
        reader = None if group in known.groups else await self._readers.find(group)
        if reader and reader.lanes(known) is not None:
            return (await self._readers.lanes(known, reader))[offset : offset + limit]
        state = self._catalogue.group(queue, group)
        now = self._store.clock.now()
        some = list(state.queue.partitions.values())[offset : offset + limit]
        return [
            await self._exactly(partition_lag(state, partition, now))
            async for partition in in_steps(some, _STEP)
        ]

    @current
    async def lagging(self, sees: Sees, *, seconds: float, limit: int) -> list[LaggingPlace]:
        """Where messages wait at least so long, the oldest first."""
        now = self._store.clock.now()
        horizon = now - int(seconds * SECOND)
        candidates: list[tuple[Instant, int, GroupState, PartitionState]] = []
        for _, state in self._seen(sees):
            for group in list(state.groups.values()):
                async for partition in in_steps(list(state.partitions.values())):
                    oldest_at = group.consumer(partition).oldest_at
                    if group.pending(partition) and oldest_at <= horizon:
                        candidates.append((oldest_at, len(candidates), group, partition))
        # What is known is not later than the truth: so the oldest come first, as far as is known.
        heapq.heapify(candidates)
        found: list[LaggingPlace] = []
        while candidates and len(found) < limit:
            _, _, group, partition = heapq.heappop(candidates)
            lag = await self._exactly(partition_lag(group, partition, now))
            if lag.oldest_at is not None and lag.oldest_at <= to_datetime(horizon):
                queue = group.queue.config.name
                found.append(LaggingPlace(queue=queue, group=group.name, lag=lag))
            if len(candidates) % _STEP == 0:
                await asyncio.sleep(0)
        return sorted(found, key=lambda place: place.lag.oldest_at or _NEVER)

    @current
    async def depth(self, queue: str, group: str, *, limit: int) -> Depth:
        """What a group still has to read.

        If nobody has popped from the queue without naming a group, that group has all of it.
        """
        state = self._catalogue.queue(queue)
        known = None
        if group != QUEUE_MODE or group in state.groups:
            known = self._catalogue.group(queue, group)
        backlog = 0
        waiting: list[tuple[str, int]] = []
        async for partition in in_steps(list(state.partitions.values())):
            pending = known.pending(partition) if known else partition.end - partition.start
            if pending:
                backlog += pending
                waiting.append((partition.name, pending))
        return Depth(
            backlog=backlog,
            partitions_with_backlog=len(waiting),
            partitions=waiting[:limit],
        )

    def _seen(self, sees: Sees) -> list[tuple[str, QueueState]]:
        """The queues that somebody sees, by name, without those that are the broker's own."""
        self._catalogue.check_open()
        return [
            (name, state)
            for name, state in sorted(self._catalogue.queues.items())
            if sees(name) and not name.startswith(RESERVED)
        ]

    async def _lag(self, group: GroupState) -> GroupLag:
        now = self._store.clock.now()
        backlog = waiting = leased = 0
        leases: set[str] = set()
        oldest: list[tuple[Instant, int, Offset]] = []
        async for partition in in_steps(list(group.queue.partitions.values())):
            consumer = group.consumer(partition)
            if lease := consumer.live_lease(now):
                leased += 1
                leases.add(lease.id)
            if pending := group.pending(partition):
                backlog += pending
                waiting += 1
                _keep_oldest(oldest, (-consumer.oldest_at, partition.number, consumer.cursor))
        return replace(
            group_lag(group, ()),
            backlog=backlog,
            partitions_with_backlog=waiting,
            leased_partitions=leased,
            members=len(leases),
            oldest_at=await self._oldest(oldest),
        )

    async def _oldest(self, candidates: list[tuple[Instant, int, Offset]]) -> datetime | None:
        """Since when the oldest message of all waits.

        What is known in memory is not later than that: so the oldest by what is known are read,
        until no other can be older.
        """
        oldest: datetime | None = None
        for minus_known, partition, cursor in sorted(candidates, reverse=True):
            known = to_datetime(-minus_known)
            if oldest is not None and known >= oldest:
                break
            exact = await self._created_at(partition, cursor) or known
            oldest = exact if oldest is None else min(oldest, exact)
        return oldest

    async def _exactly(self, lag: PartitionLag) -> PartitionLag:
        """The place with the very age of its oldest message."""
        if not lag.backlog:
            return lag
        created_at = await self._created_at(lag.number, lag.cursor)
        return lag if created_at is None else replace(lag, oldest_at=created_at)

    async def _created_at(self, partition: int, offset: Offset) -> datetime | None:
        segments = await self._store.read(partition, offset, messages=1, size=1)
        return to_datetime(segments[0].created_at) if segments else None


def _keep_oldest(
    heap: list[tuple[Instant, int, Offset]], entry: tuple[Instant, int, Offset]
) -> None:
    """Keep the oldest few, by the negative of when they were pushed."""
    if len(heap) < _READS:
        heapq.heappush(heap, entry)
    else:
        heapq.heappushpop(heap, entry)


_NEVER = to_datetime(1 << 57)
