"""What the process knows, made to last: loaded once, then led by the commits."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from skep.core import lease as leases
from skep.core.births import Births
from skep.core.known import Known
from skep.core.state import GroupState, PartitionState, QueueState
from skep.core.whole import Locks, to_the_end
from skep.errors import QueueNotFound
from skep.model.names import Offset
from skep.model.queue import Queue, Subscription, labels_of
from skep.store.protocol import Store, StoredConsumer


class Catalogue(Known):
    """Makes and removes queues, partitions and groups, in the store and here."""

    def __init__(self, store: Store, *, cache_bytes: int) -> None:
        super().__init__(store.clock, cache_bytes=cache_bytes)
        self._store = store
        self._making = Locks[str]()
        self._removing = asyncio.Lock()
        self.loading = asyncio.Lock()
        """Held while something is read from the store and applied here: what another server does
        in between must not be applied in between, because it may be about what is not known yet.
        """
        self._births = Births(self._make_partitions)

    async def load(self) -> None:
        for config in await self._store.queues():
            await self.load_queue(config)

    async def load_queue(self, config: Queue) -> QueueState:
        """Know a queue with all that the store has of it; it may be more than its name.

        To be called with ``loading`` held.
        """
        queue = self.add_queue(config)
        for partition in await self._store.partitions(config.number):
            self._merge(queue, partition)
        for subscription in await self._store.subscriptions(config.number):
            queue.groups.setdefault(subscription.group, GroupState(queue, subscription))
        now = self._store.clock.now()
        for number, name, state in await self._store.consumers(config.number):
            group, known = queue.groups.get(name), self.partitions.get(number)
            if group and known:
                self.hear(group, known, leases.bounded(state, config.options, now), own=False)
        self.refresh_queue(queue)
        return queue

    async def reload(self) -> None:
        """Forget everything, and know what is stored."""
        for queue in list(self.queues.values()):
            self.drop_queue(queue)
        self.dropped.clear()
        self.cache.clear()
        await self.load()

    def bound(self) -> None:
        """Let no lease and no retry last longer than it may, after the clock was set back."""
        now = self._store.clock.now()
        for queue in self.queues.values():
            for group in queue.groups.values():
                for number, state in list(group.consumers.items()):
                    group.consumers[number] = leases.bounded(state, queue.config.options, now)
            self.refresh_queue(queue)

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
                async with self.loading:
                    stored = await self._store.put_queue(config, replace=False)
                    found = self.by_number.get(stored.number) or await self.load_queue(stored)
        return found

    async def configure(self, config: Queue) -> QueueState:
        """Create the queue or replace its configuration."""
        self.check_open()
        return await to_the_end(self._configure(config))

    async def _configure(self, config: Queue) -> QueueState:
        async with self._making.of(config.name), self.loading:
            stored = await self._store.put_queue(config)
            # One of the same name that is known here may be another, deleted elsewhere.
            found = self.by_number.get(stored.number)
            if found is None:
                return await self.load_queue(stored)
            self.reconfigure(found, stored)
        return found

    async def ensure_partitions(self, queue: QueueState, names: Iterable[str]) -> bool:
        """Create the partitions of a queue that it has not; False if the queue is gone."""
        missing = [name for name in names if name not in queue.partitions]
        if missing:
            await self._births.of(queue, missing)
        return all(name in queue.partitions for name in missing)

    async def _make_partitions(self, queue: QueueState, names: list[str]) -> None:
        async with self.loading:
            found = await self._store.create_partitions(queue.config.number, names)
            for made in found if self.is_known(queue) else ():
                self.adopt(queue, made)

    async def add_first_contact(
        self, queue: QueueState, subscription: Subscription, seeds: Sequence[StoredConsumer]
    ) -> bool:
        """Register a group with these cursors; False if it is, or if the queue is gone."""
        async with self.loading:
            if not await self._store.subscribe(subscription, seeds) or not self.is_known(queue):
                return False
            group = self.add_group(queue, subscription)
            for number, _, state in seeds:
                self.hear(group, self.partitions[number], state, own=False)
        return True

    # Removing.

    async def truncate(self, partition: PartitionState, before: Offset, kind: str) -> int:
        """Remove what lies before an offset, a step of it; returns how many messages."""
        return await to_the_end(self._truncate(partition, before, kind))

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
        self.refresh_partition(partition)

    async def forget_queue(self, name: str) -> None:
        self.queue(name)
        await to_the_end(self._forget_queue(name))

    async def _forget_queue(self, name: str) -> None:
        # While it is being configured its name leads to it, and would lead to what is left of it.
        async with self._making.of(name):
            queue = self.queue(name)
            self.drop_queue(queue)
            with self._unless_it_fails(queue.config.number):
                existed = await self._store.delete_queue(queue.config.number)
            if not existed:
                raise QueueNotFound(name)

    async def forget_group(self, group: GroupState) -> None:
        self.drop_group(group)
        await to_the_end(self._forget_group(group))

    async def _forget_group(self, group: GroupState) -> None:
        with self._unless_it_fails(group.subscription.id):
            await self._store.delete_group(group.queue.config.number, group.name)

    @contextmanager
    def _unless_it_fails(self, dropped: int | str) -> Iterator[None]:
        """What could not be deleted is still there, and is known again when it is next met."""
        try:
            yield
        except BaseException:
            self.dropped.remove(dropped)
            raise
