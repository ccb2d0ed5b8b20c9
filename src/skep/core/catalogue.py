"""The queues as this process knows them: loaded once, then led by the commits."""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from skep.core import lease as leases
from skep.core.cache import TailCache
from skep.core.scheduler import Scheduler
from skep.core.state import GroupState, PartitionState, QueueState
from skep.core.waiting import ANY_QUEUE, Waiting
from skep.core.whole import Locks, to_the_end
from skep.errors import Closed, GroupNotFound, LeaseLost, PartitionNotFound, QueueNotFound
from skep.model.change import Applied, Change, Commit
from skep.model.consumer import Consumer
from skep.model.names import LeaseId, Offset, check_text
from skep.model.queue import Queue, Subscription, labels_of
from skep.store.protocol import Store, StoredConsumer

Held: TypeAlias = tuple[GroupState, PartitionState]


class _Holding(msgspec.Struct):
    """What a lease holds, and the partitions that it held until it settled them.

    ``broken`` once somebody else took or ended a part of it.
    """

    places: list[Held]
    settled: set[int] = msgspec.field(default_factory=set)
    broken: bool = False


class Catalogue:
    """Finds queues, partitions, groups and leases, and makes the first three when they are new.

    ``follow`` is the only place where the log changes what is known here.
    """

    def __init__(self, store: Store, *, cache_bytes: int) -> None:
        self._store = store
        self._making = Locks[str]()
        self._removing = asyncio.Lock()
        self._leases: dict[LeaseId, _Holding] = {}
        self.closed = False
        self.queues: dict[str, QueueState] = {}
        self.partitions: dict[int, PartitionState] = {}
        self.cache = TailCache(cache_bytes)
        self.waiting = Waiting(store.clock)
        self.scheduler = Scheduler(store.clock, self.waiting, self.partitions)

    def close(self) -> None:
        """Let everybody who waits go home empty-handed, and nobody come in."""
        self.closed = True
        self.scheduler.close()
        self.waiting.close()

    async def load(self) -> None:
        for config in await self._store.queues():
            queue = self._add_queue(config)
            for partition in await self._store.partitions(config.number):
                self.partitions[partition.number] = queue.add(partition)
            for subscription in await self._store.subscriptions(config.number):
                queue.groups[subscription.group] = GroupState(queue, subscription)
            now = self._store.clock.now()
            for number, group_name, state in await self._store.consumers(config.number):
                group, partition_state = queue.groups.get(group_name), self.partitions.get(number)
                if group and partition_state:
                    kept = leases.bounded(state, config.options, now)
                    self._put(group, partition_state, kept, own=False)
            self.refresh_queue(queue)

    # Finding.

    def queue(self, name: str) -> QueueState:
        self.check_open()
        found = self.queues.get(check_text("queue", name))
        if found is None:
            raise QueueNotFound(name)
        return found

    def partition(self, queue: str, name: str) -> PartitionState:
        found = self.queue(queue).partitions.get(check_text("partition", name))
        if found is None:
            raise PartitionNotFound(queue, name)
        return found

    def partitions_of(self, queue: str, only: str | None) -> list[PartitionState]:
        """All partitions of a queue, or one that is named."""
        if only is not None:
            return [self.partition(queue, only)]
        return list(self.queue(queue).partitions.values())

    def group(self, queue: str, name: str) -> GroupState:
        found = self.queue(queue).groups.get(check_text("group", name))
        if found is None:
            raise GroupNotFound(queue, name)
        return found

    def lease(self, lease_id: LeaseId, only: Collection[int] | None = None) -> list[Held]:
        """The places that a lease holds, all or ``only`` in some partitions.

        A partition that the lease itself has settled before is left out. ``LeaseLost`` if one
        of them has run out or is with somebody else, or if it holds nothing any more.
        """
        holding = self._leases.get(lease_id)
        if holding is None or (only is None and holding.broken):
            raise LeaseLost(lease_id)
        places = [p for p in holding.places if only is None or p[1].number in only]
        now = self._store.clock.now()
        for group, partition in places:
            if not leases.is_live(group.consumer(partition), lease_id, now):
                raise LeaseLost(lease_id)
        if only is not None and len(places) != len(set(only) - holding.settled):
            raise LeaseLost(lease_id)
        return places

    def holding(self, lease_id: LeaseId) -> list[Held]:
        """The places that a lease holds, lost or not."""
        holding = self._leases.get(lease_id)
        return holding.places if holding else []

    def check_open(self) -> None:
        if self.closed:
            raise Closed

    # Making.

    async def ensure_queue(self, name: str) -> QueueState:
        """The queue of this name, made with its defaults where there is none."""
        if name in self.queues:
            return self.queues[name]
        return await to_the_end(self._make_queue(name))

    async def _make_queue(self, name: str) -> QueueState:
        async with self._making.of(name):
            found = self.queues.get(name)
            if found is None:
                namespace, task = labels_of(name)
                config = Queue(number=0, name=name, namespace=namespace, task=task)
                found = self._add_queue(await self._store.put_queue(config))
        return found

    async def configure(self, config: Queue) -> QueueState:
        """Create the queue or replace its configuration."""
        self.check_open()
        return await to_the_end(self._configure(config))

    async def _configure(self, config: Queue) -> QueueState:
        async with self._making.of(config.name):
            stored = await self._store.put_queue(config)
            found = self.queues.get(config.name)
            if found is None:
                return self._add_queue(stored)
            found.config = stored
        self.refresh_queue(found)
        self.waiting.wake_all(ANY_QUEUE)
        return found

    async def ensure_partitions(
        self, queue: QueueState, names: Iterable[str]
    ) -> dict[str, PartitionState]:
        """Partitions by name, made where there is none."""
        names = list(names)
        missing = [name for name in names if name not in queue.partitions]
        if missing:
            found = await self._store.create_partitions(queue.config.number, missing)
            for made in found if self._is_known(queue) else ():
                self.partitions[made.number] = queue.add(made)
                for group in queue.groups:
                    self.waiting.wake_all((queue.config.number, group, made.name))
        if any(name not in queue.partitions for name in names):
            raise QueueNotFound(queue.config.name)
        return {name: queue.partitions[name] for name in names}

    async def ensure_group(
        self, queue: QueueState, subscription: Subscription, seeds: Sequence[StoredConsumer]
    ) -> GroupState:
        """The group, registered with these cursors at its first contact with the queue."""
        if await self._store.subscribe(subscription, seeds) and self._is_known(queue):
            group = GroupState(queue, subscription)
            queue.groups[subscription.group] = group
            for number, _, state in seeds:
                self._put(group, self.partitions[number], state, own=False)
            self.refresh_group(group)
        if subscription.group not in queue.groups:
            raise QueueNotFound(queue.config.name)
        return queue.groups[subscription.group]

    # Removing.

    async def truncate(self, partition: PartitionState, before: Offset, kind: str) -> int:
        """Remove what lies before an offset, a step of it; returns how many messages."""
        return await to_the_end(self._truncate(partition, before, kind))

    async def _truncate(self, partition: PartitionState, before: Offset, kind: str) -> int:
        async with self._removing:
            self._set_changing(partition, True)
            try:
                queue = partition.queue.config.number
                removal = await self._store.truncate(queue, partition.number, before, kind=kind)
                if removal.messages:
                    start = partition.start + removal.messages
                    rest = await self._store.read(partition.number, start, messages=1, size=1)
                    partition.truncate(start, rest[0].created_at if rest else 0)
            finally:
                self._set_changing(partition, False)
        return removal.messages

    def _set_changing(self, partition: PartitionState, changing: bool) -> None:
        partition.changing = changing
        for group in partition.queue.groups.values():
            self.scheduler.refresh(group, partition)

    async def forget_queue(self, name: str) -> None:
        self.queue(name)
        await to_the_end(self._forget_queue(name))

    async def _forget_queue(self, name: str) -> None:
        # While it is being configured its name leads to it, and would lead to what is left of it.
        async with self._making.of(name):
            queue = self.queue(name)
            del self.queues[name]
            for group in queue.groups.values():
                self._retire(group)
            for partition in queue.partitions.values():
                self.partitions.pop(partition.number, None)
            await self._store.delete_queue(queue.config.number)

    async def forget_group(self, group: GroupState) -> None:
        del group.queue.groups[group.name]
        self._retire(group)
        await to_the_end(self._store.delete_group(group.queue.config.number, group.name))

    # Following the log.

    def follow(self, changes: list[Change], commit: Commit) -> None:
        for segment in commit.segments:
            partition = self.partitions.get(segment.partition)
            if partition is not None:
                partition.append(segment)
                self.cache.append(segment)
                for group in partition.queue.groups.values():
                    self.scheduler.refresh(group, partition)
        for change, outcome in zip(changes, commit.outcomes, strict=True):
            if isinstance(outcome, Applied) and not outcome.repeated:
                self._follow_consumers(change)

    def refresh_queue(self, queue: QueueState) -> None:
        for group in queue.groups.values():
            self.refresh_group(group)

    def refresh_group(self, group: GroupState) -> None:
        for partition in group.queue.partitions.values():
            self.scheduler.refresh(group, partition)

    def adjust(self, group: GroupState, partition: PartitionState, **hints: int) -> None:
        """Note something about a group's state that is true, and not worth a write."""
        known = group.consumers.get(partition.number) or group.consumer(partition)
        group.consumers[partition.number] = replace(known, **hints)

    def _follow_consumers(self, change: Change) -> None:
        for update in change.consumers:
            partition = self.partitions.get(update.partition)
            group = partition and partition.queue.groups.get(update.group)
            if partition and group:
                self._put(group, partition, update.state, own=update.under_lease)
                self.scheduler.refresh(group, partition)

    def _put(
        self, group: GroupState, partition: PartitionState, state: Consumer, *, own: bool
    ) -> None:
        """Replace a state. If that ends a lease, it was its ``own`` holder or somebody else."""
        before = group.consumers.get(partition.number)
        old = before.lease.id if before and before.lease else None
        new = state.lease.id if state.lease else None
        if old != new:
            if old is not None:
                self._unlink(old, group, partition, own=own)
            if new is not None:
                self._leases.setdefault(new, _Holding([])).places.append((group, partition))
        group.put(partition, state)

    def _unlink(
        self, lease_id: LeaseId, group: GroupState, partition: PartitionState, *, own: bool
    ) -> None:
        holding = self._leases.get(lease_id)
        if holding is None:
            return
        holding.places = [p for p in holding.places if p != (group, partition)]
        if own:
            holding.settled.add(partition.number)
        else:
            holding.broken = True
        if not holding.places:
            del self._leases[lease_id]

    def _retire(self, group: GroupState) -> None:
        for number, state in group.consumers.items():
            partition = self.partitions.get(number)
            if state.lease and partition:
                self._unlink(state.lease.id, group, partition, own=False)
        group.consumers.clear()
        self.scheduler.forget(group)

    def _is_known(self, queue: QueueState) -> bool:
        """False if a queue was deleted, perhaps while the store was asked for something of it."""
        return self.queues.get(queue.config.name) is queue

    def _add_queue(self, config: Queue) -> QueueState:
        queue = self.queues[config.name] = QueueState(config)
        self.waiting.wake_all(config.name)
        self.waiting.wake_all(ANY_QUEUE)
        return queue
