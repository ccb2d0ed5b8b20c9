"""What the process knows, made to last: loaded once, then led by the commits."""

import asyncio
from collections.abc import Iterable, Sequence

from skep.core.aio import KeyedLocks, run_to_completion, yielding
from skep.core.rules import lease as leases
from skep.core.state.loader import PAGE, Loader
from skep.core.state.partition_creator import PartitionCreator
from skep.core.state.queue_state import GroupState, PartitionState, QueueState
from skep.core.state.quota import Quotas
from skep.core.state.registry import Registry
from skep.errors import QueueNotFound
from skep.model.name import Offset
from skep.model.queue import Partition, Queue, Subscription, labels_of
from skep.store.protocol import Store, StoredConsumer

STEP = 500
"""Partitions that are made in one transaction: some ten milliseconds."""


class Catalogue(Registry):
    """Makes and removes queues, partitions and groups, in the store and here."""

    def __init__(self, store: Store, *, cache_bytes: int) -> None:
        super().__init__(store.clock, cache_bytes=cache_bytes)
        self._store = store
        self._making = KeyedLocks[str]()
        self._removing = asyncio.Lock()
        self.loading = asyncio.Lock()
        """Held while something is read from the store and applied here: what another server does
        in between must not be applied in between, because it may be about what is not known yet.
        """
        self.deleting: set[str] = set()
        """Names of queues that are hidden because they are being deleted, which may fail."""
        self.outdated: set[int] = set()
        """Numbers of queues that have to be read again."""
        self._missed: set[int] = set()
        """Partitions that others did something to before they were known here."""
        self.quotas = Quotas(self.queues)
        self._partition_creator = PartitionCreator(self._make_partitions)
        self._queue_loader = Loader(self._load_next_page, self._finish_queue)
        self._group_loader = Loader(self._load_next_states, self._finish_group)

    async def load(self) -> None:
        for config in await self._store.queues():
            await self.load_queue(config)

    async def load_queue(self, config: Queue) -> QueueState:
        """Know a queue with all that the store has of it; it may be more than its name.

        To be called with ``loading`` held.
        """
        before = self.queues.get(config.name)
        if before is not None:
            # It had the same name, and another number: it is gone.
            self.drop_queue(before)
        queue = self.add_queue(config)
        queue.loaded = False
        try:
            for subscription in await self._store.subscriptions(config.number):
                queue.groups.setdefault(subscription.group, GroupState(queue, subscription))
            last = await self._load_page(queue, None)
        except BaseException:
            if self.is_known(queue):
                self.drop_queue(queue)
                self.undrop(config.number)
            raise
        self._queue_loader.start(queue, last)
        return queue

    def _finish_queue(self, queue: QueueState) -> None:
        queue.loaded = True
        for group in queue.groups.values():
            self._wake_group(group)
        if self.loaded:
            self.lease_table.announced.clear()

    async def _load_next_page(self, queue: QueueState, after: Partition) -> Partition | None:
        """Read without ``loading`` held: requests that catch up do not wait for it.

        If another server did something meanwhile that was not applied here, because a partition
        of the page or one of the groups was not known yet, the page is read again.
        """
        groups = dict(queue.groups)
        self._missed.clear()
        page = await self._read_partitions(queue, after)
        states = await self._read_states(queue, page)
        async with self.loading:
            numbers = [partition.number for partition in page]
            if queue.groups == groups and self._missed.isdisjoint(numbers):
                self._adopt_page(queue, page, states)
            else:
                found = await self._store.find_partitions(queue.config.number, numbers)
                await self._adopt_all(queue, found)
        return self._next_page(queue, page)

    def miss(self, partition: int) -> None:
        """Another server did something to a partition that is not known here."""
        if not self.loaded:
            self._missed.add(partition)

    async def _load_page(self, queue: QueueState, after: Partition | None) -> Partition | None:
        """Load partitions with the states of the groups; the last, if there may be more."""
        page = await self._read_partitions(queue, after)
        await self._adopt_all(queue, page)
        return self._next_page(queue, page)

    def _next_page(self, queue: QueueState, page: Sequence[Partition]) -> Partition | None:
        return page[-1] if len(page) == PAGE and self.is_known(queue) else None

    async def _read_partitions(
        self, queue: QueueState, after: Partition | None
    ) -> Sequence[Partition]:
        return list(await self._store.partitions(queue.config.number, after=after, limit=PAGE))

    async def _read_states(
        self, queue: QueueState, page: Sequence[Partition]
    ) -> Iterable[StoredConsumer]:
        if not page or not queue.groups:
            return ()
        numbers = [partition.number for partition in page]
        return list(await self._store.consumers(queue.config.number, numbers))

    async def _adopt_all(self, queue: QueueState, page: Sequence[Partition]) -> None:
        """Know partitions as they are stored, with the states of the groups in them."""
        self._adopt_page(queue, page, await self._read_states(queue, page))

    def _adopt_page(
        self, queue: QueueState, page: Sequence[Partition], states: Iterable[StoredConsumer]
    ) -> None:
        if not self.is_known(queue):
            return
        for partition in page:
            self._merge(queue, partition)
        options, now = queue.config.options, self._store.clock.now()
        for partition_number, name, state in states:
            group, known = queue.groups.get(name), self.partitions.get(partition_number)
            if group and known:
                self._take_over(group, known, leases.bounded(state, options, now), own=False)
        for partition in page:
            self._announce(self.partitions[partition.number])

    async def load_group(self, queue: QueueState, subscription: Subscription) -> None:
        """Know a group that another server made, with its states.

        To be called with ``loading`` held. Nothing is delivered to the group before all are known.
        """
        group = self.add_group(queue, subscription, starting=True)
        try:
            last = await self._load_states(group, -1)
        except BaseException:
            if not group.removed:
                self.drop_group(group)
                self.undrop(subscription.id)
            raise
        self._group_loader.start(group, last)

    async def _load_next_states(self, group: GroupState, after: int) -> int | None:
        """Read without ``loading`` held; what events brought meanwhile is newer, and stays."""
        page = await self._read_group(group, after)
        async with self.loading:
            return await self._adopt_states(group, page)

    async def _load_states(self, group: GroupState, after: int) -> int | None:
        return await self._adopt_states(group, await self._read_group(group, after))

    async def _read_group(self, group: GroupState, after: int) -> Sequence[StoredConsumer]:
        queue = group.queue.config.number
        return await self._store.group_states(queue, group.name, after=after, limit=PAGE)

    async def _adopt_states(self, group: GroupState, page: Sequence[StoredConsumer]) -> int | None:
        """Know states of a group; the partition of the last, if there may be more."""
        queue = group.queue
        if group.removed or not self.is_known(queue):
            return None
        if queue.loaded:
            # Another server may have created some since.
            await self.load_unknown(queue, [number for number, _, _ in page])
        for number, _, state in page:
            if partition := self.partitions.get(number):
                self._take_over(group, partition, self._bounded(group, state), own=False)
        return page[-1].partition if len(page) == PAGE else None

    async def load_unknown(self, queue: QueueState, numbers: Iterable[int]) -> None:
        """Load those of some partitions that are not known here.

        To be called with ``loading`` held.
        """
        unknown = [number for number in numbers if number not in self.partitions]
        if unknown:
            found = await self._store.find_partitions(queue.config.number, unknown)
            await self._adopt_all(queue, found)

    def _finish_group(self, group: GroupState) -> None:
        group.starting = False
        self.refresh_group(group)
        if self.loaded:
            self.lease_table.announced.clear()

    @property
    def loaded(self) -> bool:
        """Whether everything is known that was stored at the start."""
        return self._queue_loader.idle and self._group_loader.idle

    def has_states_of(self, group: str) -> bool:
        """Whether all stored states of the groups of a name are known, in all queues."""
        return self._queue_loader.idle and all(each.name != group for each in self._group_loader)

    def is_loaded(self, name: str | None) -> bool:
        """Whether all is known of a queue, or of all queues."""
        if name is None:
            return self.loaded
        queue = self.queues.get(name)
        if queue is None:
            return True
        return queue.loaded and not any(
            each in self._group_loader for each in queue.groups.values()
        )

    async def finish_loading(self, name: str | None = None) -> None:
        """Return when everything is known that was stored of a queue, or of all queues."""
        queue = None if name is None else self.queues.get(name)
        if queue is not None:
            await self._queue_loader.finish(queue)
            for group in list(queue.groups.values()):
                await self._group_loader.finish(group)
        elif name is None:
            await self._queue_loader.finish_all()
            await self._group_loader.finish_all()
        self.check_open()

    def is_complete(self, groups: Iterable[GroupState]) -> bool:
        """Whether it is known of all partitions of some groups whether they are ready."""
        return all(
            group.queue.loaded and not group.starting and group not in self._refresher
            for group in groups
        )

    async def stop(self) -> None:
        """End the work in the background."""
        await self._queue_loader.stop()
        await self._group_loader.stop()

    def release(self) -> None:
        """Let go of all partitions, when nothing is committed any more."""
        for queue in self.queues.values():
            queue.release()
            queue.partitions = {}

    async def reload(self) -> None:
        """Forget everything, and know what is stored."""
        for queue in list(self.queues.values()):
            self.drop_queue(queue)
        self.dropped.clear()
        self.cache.clear()
        await self.load()

    async def bound(self) -> None:
        """Let no lease and no retry last longer than it may, after the clock was set back."""
        for queue in list(self.queues.values()):
            for group in list(queue.groups.values()):
                async for number in yielding(list(group.consumers)):
                    self._bound(group, number)
            queue.count_again()
            self.refresh_queue(queue)

    def _bound(self, group: GroupState, number: int) -> None:
        state = group.consumers.get(number)
        if state is not None:
            now = self._store.clock.now()
            group.consumers[number] = leases.bounded(state, group.queue.config.options, now)

    # Making.

    async def ensure_queue(self, name: str) -> QueueState:
        """The queue of this name, made with its defaults where there is none."""
        if name in self.queues:
            return self.queues[name]
        with self.quotas.reserve("queues", name, [name]):
            return await run_to_completion(self._make_queue(name))

    async def _make_queue(self, name: str) -> QueueState:
        async with self._making.of(name):
            found = self.queues.get(name)
            if found is None:
                namespace, task = labels_of(name)
                config = Queue(number=0, name=name, namespace=namespace, task=task)
                found = await self._register(await self._store.put_queue(config, replace=False))
        return found

    async def configure(self, config: Queue) -> QueueState:
        """Create the queue or replace its configuration."""
        self.check_open()
        new = [] if config.name in self.queues else [config.name]
        with self.quotas.reserve("queues", config.name, new):
            return await run_to_completion(self._configure(config))

    async def _configure(self, config: Queue) -> QueueState:
        async with self._making.of(config.name):
            return await self._register(await self._store.put_queue(config))

    async def _register(self, stored: Queue) -> QueueState:
        """Know a queue as it was stored before; others may have changed or deleted it since."""
        async with self.loading:
            # By number: a queue of the same name may be another, deleted elsewhere.
            queue = self.by_number.get(stored.number)
            if queue is None and stored.number in self.dropped:
                return QueueState(stored)
            if queue is None:
                return await self.load_queue(stored)
            if queue.config.version < stored.version:
                self.reconfigure(queue, stored)
            return queue

    async def ensure_partitions(self, queue: QueueState, names: Iterable[str]) -> bool:
        """Create the partitions of a queue that it has not; False if the queue is gone."""
        missing = [name for name in names if name not in queue.partitions]
        if missing:
            with self.quotas.reserve("partitions", queue.config.name, missing):
                await self._partition_creator.of(queue, missing)
        return all(name in queue.partitions for name in missing)

    async def _make_partitions(self, queue: QueueState, names: list[str]) -> None:
        """In steps, between which other requests run."""
        async for start in yielding(range(0, len(names), STEP)):
            await self._make_some_partitions(queue, names[start : start + STEP])

    async def _make_some_partitions(self, queue: QueueState, names: list[str]) -> None:
        async with self.loading:
            found = await self._store.create_partitions(queue.config.number, names)
            if not queue.loaded:
                # Some may be stored already, and not loaded yet.
                await self._adopt_all(queue, found)
            elif self.is_known(queue):
                for made in found:
                    self.adopt(queue, made)

    async def add_first_contact(
        self, queue: QueueState, subscription: Subscription, seeds: Sequence[StoredConsumer]
    ) -> bool:
        """Register a group with these cursors; False if it is, or if the queue is gone."""
        if not await self._store.subscribe(subscription, seeds):
            return False
        async with self.loading:
            if not self.is_known(queue):
                return False
            group = queue.groups.get(subscription.group)
            if group is None or group.subscription.id != subscription.id:
                group = self.add_group(queue, subscription, starting=True)
        async for number, _, state in yielding(seeds):
            if partition := self.partitions.get(number):
                self._take_over(group, partition, state, own=False)
        group.starting = False
        self.refresh_group(group)
        return True

    # Removing.

    async def truncate(self, partition: PartitionState, before: Offset, kind: str) -> int:
        """Remove what lies before an offset, a step of it; returns how many messages."""
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
        self.refresh_partition(partition)

    async def forget_queue(self, name: str) -> None:
        self.queue(name)
        await run_to_completion(self._forget_queue(name))

    async def _forget_queue(self, name: str) -> None:
        # While it is being configured its name leads to it, and would lead to what is left of it.
        async with self._making.of(name):
            queue = self.queue(name)
            self.hide_queue(queue)
            self.deleting.add(name)
            try:
                existed = await self._store.delete_queue(queue.config.number)
            except BaseException:
                if self.show_queue(queue):
                    # Events of other servers about it were not applied meanwhile.
                    self.outdated.add(queue.config.number)
                else:
                    self.dismantle(queue)
                raise
            finally:
                self.deleting.discard(name)
        self.dismantle(queue)
        if not existed:
            raise QueueNotFound(name)

    async def forget_group(self, group: GroupState) -> None:
        await run_to_completion(self._forget_group(group))

    async def _forget_group(self, group: GroupState) -> None:
        # If it cannot be deleted, nothing has changed: retention goes on waiting for it.
        await self._store.delete_group(group.queue.config.number, group.name)
        if not group.removed:
            self.drop_group(group)
