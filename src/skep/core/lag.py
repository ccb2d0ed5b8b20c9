"""How far groups are behind: in messages, exactly, and in time, by reading what waits."""

import heapq
from datetime import datetime

import msgspec
from msgspec.structs import replace

from skep.core.catalogue import Catalogue
from skep.core.groups import group_lag, partition_lag
from skep.core.metrics import Sees
from skep.core.state import GroupState, PartitionState
from skep.core.turns import in_steps
from skep.errors import NotFound
from skep.model.names import QUEUE_MODE, SECOND, Offset, check_text, to_datetime
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
    def __init__(self, store: Store, catalogue: Catalogue) -> None:
        self._store = store
        self._catalogue = catalogue

    def of(self, group: str, sees: Sees) -> list[str]:
        """The queues that somebody sees and a group has popped from, by name."""
        check_text("group", group)
        self._catalogue.check_open()
        states = self._catalogue.queues.items()
        return sorted(name for name, state in states if sees(name) and group in state.groups)

    def find(self, group: str, sees: Sees) -> list[str]:
        """As ``of``, but there must be one."""
        found = self.of(group, sees)
        if not found:
            raise NotFound(f"group {group!r} has never popped from any queue")
        return found

    async def groups(self, sees: Sees) -> list[GroupLag]:
        """Every group of every queue that somebody sees, and how far it is."""
        self._catalogue.check_open()
        groups = [
            group
            for name, state in sorted(self._catalogue.queues.items())
            if sees(name)
            for group in state.groups.values()
        ]
        return [await self._lag(group) for group in groups]

    async def group(self, queue: str, group: str) -> GroupLag:
        """How far a group is in one queue."""
        return await self._lag(self._catalogue.group(queue, group))

    async def partitions(
        self, queue: str, group: str, *, offset: int = 0, limit: int
    ) -> list[PartitionLag]:
        """How far a group is in partitions of a queue, oldest partition first."""
        state = self._catalogue.group(queue, group)
        now = self._store.clock.now()
        some = list(state.queue.partitions.values())[offset : offset + limit]
        return [
            await self._exactly(partition_lag(state, partition, now))
            async for partition in in_steps(some, _STEP)
        ]

    async def lagging(self, sees: Sees, *, seconds: float, limit: int) -> list[LaggingPlace]:
        """Where messages wait at least so long, the oldest first."""
        horizon = to_datetime(self._store.clock.now() - int(seconds * SECOND))
        candidates = [
            LaggingPlace(queue=name, group=group.name, lag=lag)
            for name, state in list(self._catalogue.queues.items())
            if sees(name)
            for group in list(state.groups.values())
            for lag in await self._waiting(group)
            if _oldest(lag) <= horizon
        ]
        candidates.sort(key=lambda place: _oldest(place.lag))
        found: list[LaggingPlace] = []
        async for place in in_steps(candidates, _STEP):
            if len(found) == limit:
                break
            lag = await self._exactly(place.lag)
            if _oldest(lag) <= horizon:
                found.append(replace(place, lag=lag))
        return sorted(found, key=lambda place: _oldest(place.lag))

    async def depth(self, queue: str, group: str, *, limit: int) -> Depth:
        """What a group still has to read.

        If nobody has popped from the queue without naming a group, that group has all of it.
        """
        state = self._catalogue.queue(queue)
        if group == QUEUE_MODE and group not in state.groups:
            waiting = [(p.name, p.end - p.start) for p in state.partitions.values()]
        else:
            lags = await self._waiting(self._catalogue.group(queue, group))
            waiting = [(lag.partition, lag.backlog) for lag in lags]
        waiting = [(name, backlog) for name, backlog in waiting if backlog]
        return Depth(
            backlog=sum(backlog for _, backlog in waiting),
            partitions_with_backlog=len(waiting),
            partitions=waiting[:limit],
        )

    async def _lag(self, group: GroupState) -> GroupLag:
        lags = await self._waiting(group)
        return replace(group_lag(group, lags), oldest_at=await self._oldest(lags))

    async def _waiting(self, group: GroupState) -> list[PartitionLag]:
        """A group's place in each partition where something waits or is leased."""
        now = self._store.clock.now()
        return [
            partition_lag(group, partition, now)
            async for partition in in_steps(list(group.queue.partitions.values()))
            if _matters(group, partition)
        ]

    async def _oldest(self, lags: list[PartitionLag]) -> datetime | None:
        """Since when the oldest message of all waits.

        What is known in memory is not later than that: so the oldest by what is known are read,
        until no other can be older.
        """
        oldest: datetime | None = None
        for lag in heapq.nsmallest(_READS, (lag for lag in lags if lag.backlog), key=_oldest):
            if oldest is not None and _oldest(lag) >= oldest:
                break
            exact = _oldest(await self._exactly(lag))
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


def _matters(group: GroupState, partition: PartitionState) -> bool:
    known = group.consumers.get(partition.number)
    return group.pending(partition) > 0 or (known is not None and known.lease is not None)


def _oldest(lag: PartitionLag) -> datetime:
    return lag.oldest_at or _NEVER


_NEVER = to_datetime(1 << 57)
