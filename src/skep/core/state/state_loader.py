"""Loads what is stored into the registry: the first page of each queue at once, the rest lazily."""

import asyncio
from collections.abc import Iterable, Sequence

from skep.core.aio import yielding
from skep.core.rules import lease as leases
from skep.core.state.background_loader import PAGE, BackgroundLoader
from skep.core.state.lease_table import LeaseTable
from skep.core.state.queue_state import GroupState, QueueState
from skep.core.state.registry import Registry
from skep.core.state.segment_cache import SegmentCache
from skep.model.queue import Partition, Queue, Subscription
from skep.store.protocol import CatalogueStore, StoredConsumer


class StateLoader:
    def __init__(
        self,
        store: CatalogueStore,
        registry: Registry,
        lease_table: LeaseTable,
        cache: SegmentCache,
    ) -> None:
        self._store = store
        self._registry = registry
        self._lease_table = lease_table
        self._cache = cache
        self.loading = asyncio.Lock()
        """Held while something is read from the store and applied here: what another server does
        in between must not be applied in between, because it may be about what is not known yet.
        """
        self.outdated: set[int] = set()
        """Numbers of queues that have to be read again."""
        self._missed: set[int] = set()
        """Partitions that others did something to before they were known here."""
        self._queue_loader = BackgroundLoader(self._load_next_page, self._finish_queue)
        self._group_loader = BackgroundLoader(self._load_next_states, self._finish_group)

    async def load(self) -> None:
        for config in await self._store.queues():
            await self.load_queue(config)

    async def load_queue(self, config: Queue) -> QueueState:
        """Know a queue with all that the store has of it; it may be more than its name.

        To be called with ``loading`` held.
        """
        before = self._registry.queues.get(config.name)
        if before is not None:
            # A queue of the same name with another number was deleted.
            self._registry.drop_queue(before)
        queue = self._registry.add_queue(config)
        queue.loaded = False
        try:
            for subscription in await self._store.subscriptions(config.number):
                queue.groups.setdefault(subscription.group, GroupState(queue, subscription))
            last = await self._load_page(queue, None)
        except BaseException:
            if self._registry.is_known(queue):
                self._registry.drop_queue(queue)
                self._registry.undrop(config.number)
            raise
        self._queue_loader.start(queue, last)
        return queue

    def _finish_queue(self, queue: QueueState) -> None:
        queue.loaded = True
        for group in queue.groups.values():
            self._registry.wake_group(group)
        if self.loaded:
            self._lease_table.announced.clear()

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
                await self.adopt_all(queue, found)
        return self._next_page(queue, page)

    def miss(self, partition: int) -> None:
        """Another server did something to a partition that is not known here."""
        if not self.loaded:
            self._missed.add(partition)

    async def _load_page(self, queue: QueueState, after: Partition | None) -> Partition | None:
        """Load partitions with the states of the groups; the last, if there may be more."""
        page = await self._read_partitions(queue, after)
        await self.adopt_all(queue, page)
        return self._next_page(queue, page)

    def _next_page(self, queue: QueueState, page: Sequence[Partition]) -> Partition | None:
        return page[-1] if len(page) == PAGE and self._registry.is_known(queue) else None

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

    async def adopt_all(self, queue: QueueState, page: Sequence[Partition]) -> None:
        """Know partitions as they are stored, with the states of the groups in them."""
        self._adopt_page(queue, page, await self._read_states(queue, page))

    def _adopt_page(
        self, queue: QueueState, page: Sequence[Partition], states: Iterable[StoredConsumer]
    ) -> None:
        if not self._registry.is_known(queue):
            return
        for partition in page:
            self._registry.merge(queue, partition)
        options, now = queue.config.options, self._store.clock.now()
        for partition_number, name, state in states:
            group, known = queue.groups.get(name), self._registry.partitions.get(partition_number)
            if group and known:
                self._registry.take_over(
                    group, known, leases.bounded(state, options, now), own=False
                )
        for partition in page:
            self._registry.announce(self._registry.partitions[partition.number])

    async def load_group(self, queue: QueueState, subscription: Subscription) -> None:
        """Know a group that another server made, with its states.

        To be called with ``loading`` held. Nothing is delivered to the group before all are known.
        """
        group = self._registry.add_group(queue, subscription, starting=True)
        try:
            last = await self._load_states(group, -1)
        except BaseException:
            if not group.removed:
                self._registry.drop_group(group)
                self._registry.undrop(subscription.id)
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
        if group.removed or not self._registry.is_known(queue):
            return None
        if queue.loaded:
            # Another server may have created some since.
            await self.load_unknown(queue, [number for number, _, _ in page])
        for number, _, state in page:
            if partition := self._registry.partitions.get(number):
                self._registry.take_over(
                    group, partition, self._registry.bounded(group, state), own=False
                )
        return page[-1].partition if len(page) == PAGE else None

    async def load_unknown(self, queue: QueueState, numbers: Iterable[int]) -> None:
        """Load those of some partitions that are not known here.

        To be called with ``loading`` held.
        """
        unknown = [number for number in numbers if number not in self._registry.partitions]
        if unknown:
            found = await self._store.find_partitions(queue.config.number, unknown)
            await self.adopt_all(queue, found)

    def _finish_group(self, group: GroupState) -> None:
        group.starting = False
        self._registry.refresh_group(group)
        if self.loaded:
            self._lease_table.announced.clear()

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
        queue = self._registry.queues.get(name)
        if queue is None:
            return True
        return queue.loaded and not any(
            each in self._group_loader for each in queue.groups.values()
        )

    async def finish_loading(self, name: str | None = None) -> None:
        """Return when everything is known that was stored of a queue, or of all queues."""
        queue = None if name is None else self._registry.queues.get(name)
        if queue is not None:
            await self._queue_loader.finish(queue)
            for group in list(queue.groups.values()):
                await self._group_loader.finish(group)
        elif name is None:
            await self._queue_loader.finish_all()
            await self._group_loader.finish_all()
        self._registry.check_open()

    def is_complete(self, groups: Iterable[GroupState]) -> bool:
        """Whether it is known of all partitions of some groups whether they are ready."""
        return all(
            group.queue.loaded and not group.starting and not self._registry.is_refreshing(group)
            for group in groups
        )

    async def stop(self) -> None:
        """End the work in the background."""
        await self._queue_loader.stop()
        await self._group_loader.stop()

    async def reload(self) -> None:
        """Forget everything, and know what is stored."""
        for queue in list(self._registry.queues.values()):
            self._registry.drop_queue(queue)
        self._registry.dropped.clear()
        self._cache.clear()
        await self.load()

    async def bound(self) -> None:
        """Let no lease and no retry last longer than it may, after the clock was set back."""
        for queue in list(self._registry.queues.values()):
            for group in list(queue.groups.values()):
                async for number in yielding(list(group.consumers)):
                    self._bound(group, number)
            queue.count_again()
            self._registry.refresh_queue(queue)

    def _bound(self, group: GroupState, number: int) -> None:
        state = group.consumers.get(number)
        if state is not None:
            now = self._store.clock.now()
            group.consumers[number] = leases.bounded(state, group.queue.config.options, now)
