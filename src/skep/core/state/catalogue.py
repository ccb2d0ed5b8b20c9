"""Creates, configures, truncates and deletes: in the store, then in the registry."""

import asyncio
from collections.abc import Iterable, Sequence

from skep.core.aio import KeyedLocks, run_to_completion, yielding
from skep.core.state.partition_creator import PartitionCreator
from skep.core.state.queue_state import GroupState, PartitionState, QueueState
from skep.core.state.quota import Quotas
from skep.core.state.registry import Registry
from skep.core.state.state_loader import StateLoader
from skep.errors import QueueNotFound
from skep.model.name import Offset
from skep.model.queue import Queue, Subscription, labels_of
from skep.store.protocol import Store, StoredConsumer

STEP = 500
"""Partitions that are created in one transaction: some ten milliseconds."""


class Catalogue:
    def __init__(
        self, store: Store, registry: Registry, loader: StateLoader, quotas: Quotas
    ) -> None:
        self._store = store
        self._registry = registry
        self._loader = loader
        self._quotas = quotas
        self._making = KeyedLocks[str]()
        self._removing = asyncio.Lock()
        self._partition_creator = PartitionCreator(self._make_partitions)

    async def ensure_queue(self, name: str) -> QueueState:
        """The queue of this name, made with its defaults where there is none."""
        if name in self._registry.queues:
            return self._registry.queues[name]
        with self._quotas.reserve("queues", name, [name]):
            return await run_to_completion(self._make_queue(name))

    async def _make_queue(self, name: str) -> QueueState:
        async with self._making.of(name):
            found = self._registry.queues.get(name)
            if found is None:
                namespace, task = labels_of(name)
                config = Queue(number=0, name=name, namespace=namespace, task=task)
                found = await self._register(await self._store.put_queue(config, replace=False))
        return found

    async def configure(self, config: Queue) -> QueueState:
        """Create the queue or replace its configuration."""
        self._registry.check_open()
        new = [] if config.name in self._registry.queues else [config.name]
        with self._quotas.reserve("queues", config.name, new):
            return await run_to_completion(self._configure(config))

    async def _configure(self, config: Queue) -> QueueState:
        async with self._making.of(config.name):
            return await self._register(await self._store.put_queue(config))

    async def _register(self, stored: Queue) -> QueueState:
        """Know a queue as it was stored before; others may have changed or deleted it since."""
        async with self._loader.loading:
            # By number: a queue of the same name may be another, deleted elsewhere.
            queue = self._registry.by_number.get(stored.number)
            if queue is None and stored.number in self._registry.dropped:
                return QueueState(stored)
            if queue is None:
                return await self._loader.load_queue(stored)
            if queue.config.version < stored.version:
                self._registry.reconfigure(queue, stored)
            return queue

    async def ensure_partitions(self, queue: QueueState, names: Iterable[str]) -> bool:
        """Create the missing partitions of a queue; False if the queue was deleted."""
        missing = [name for name in names if name not in queue.partitions]
        if missing:
            with self._quotas.reserve("partitions", queue.config.name, missing):
                await self._partition_creator.of(queue, missing)
        return all(name in queue.partitions for name in missing)

    async def _make_partitions(self, queue: QueueState, names: list[str]) -> None:
        """In steps, between which other requests run."""
        async for start in yielding(range(0, len(names), STEP)):
            await self._make_some_partitions(queue, names[start : start + STEP])

    async def _make_some_partitions(self, queue: QueueState, names: list[str]) -> None:
        async with self._loader.loading:
            found = await self._store.create_partitions(queue.config.number, names)
            if not queue.loaded:
                # Some may be stored already, and not loaded yet.
                await self._loader.adopt_all(queue, found)
            elif self._registry.is_known(queue):
                for made in found:
                    self._registry.adopt(queue, made)

    async def add_first_contact(
        self, queue: QueueState, subscription: Subscription, seeds: Sequence[StoredConsumer]
    ) -> bool:
        """Register a group with these cursors; False if it exists, or if the queue was deleted."""
        if not await self._store.subscribe(subscription, seeds):
            return False
        async with self._loader.loading:
            if not self._registry.is_known(queue):
                return False
            group = queue.groups.get(subscription.group)
            if group is None or group.subscription.id != subscription.id:
                group = self._registry.add_group(queue, subscription, starting=True)
        async for number, _, state in yielding(seeds):
            if partition := self._registry.partitions.get(number):
                self._registry.take_over(group, partition, state, own=False)
        group.starting = False
        self._registry.refresh_group(group)
        return True

    async def truncate(self, partition: PartitionState, before: Offset, kind: str) -> int:
        """Remove a step of what is before an offset; returns how many messages."""
        return await run_to_completion(self._truncate(partition, before, kind))

    async def _truncate(self, partition: PartitionState, before: Offset, kind: str) -> int:
        async with self._removing:
            self._set_changing(partition, True)
            try:
                queue = partition.queue.config.number
                done = await self._store.truncate(queue, partition.number, before, kind=kind)
                if done.start > partition.start:
                    partition.truncate(done.start, done.first_at)
            finally:
                self._set_changing(partition, False)
        return done.messages

    def _set_changing(self, partition: PartitionState, changing: bool) -> None:
        partition.changing = changing
        self._registry.refresh_partition(partition)

    async def forget_queue(self, name: str) -> None:
        self._registry.queue(name)
        await run_to_completion(self._forget_queue(name))

    async def _forget_queue(self, name: str) -> None:
        # While it is being configured its name leads to it, and would lead to what is left of it.
        async with self._making.of(name):
            queue = self._registry.queue(name)
            self._registry.hide_queue(queue)
            self._registry.deleting.add(name)
            try:
                existed = await self._store.delete_queue(queue.config.number)
            except BaseException:
                if self._registry.show_queue(queue):
                    # Events of other servers about it were not applied meanwhile.
                    self._loader.outdated.add(queue.config.number)
                else:
                    self._registry.dismantle(queue)
                raise
            finally:
                self._registry.deleting.discard(name)
        self._registry.dismantle(queue)
        if not existed:
            raise QueueNotFound(name)

    async def forget_group(self, group: GroupState) -> None:
        await run_to_completion(self._forget_group(group))

    async def _forget_group(self, group: GroupState) -> None:
        # If it cannot be deleted, nothing has changed: retention still waits for it.
        await self._store.delete_group(group.queue.config.number, group.name)
        if not group.removed:
            self._registry.drop_group(group)
