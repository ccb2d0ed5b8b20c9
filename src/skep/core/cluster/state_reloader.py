"""Reads a queue again when events were missed.

The server goes on meanwhile. So only what was known before counts as deleted if it is not found,
and what was deleted meanwhile stays deleted if it is found.
"""

from collections.abc import Sequence

from skep.core.aio import yielding
from skep.core.state.background_loader import PAGE
from skep.core.state.queue_state import GroupState, QueueState
from skep.core.state.registry import Registry
from skep.core.state.state_loader import StateLoader
from skep.model.queue import Partition, Subscription
from skep.store.protocol import CatalogueStore


class StateReloader:
    def __init__(self, store: CatalogueStore, registry: Registry, loader: StateLoader) -> None:
        self._store = store
        self._registry = registry
        self._loader = loader

    async def look_at(self, number: int) -> QueueState | None:
        """See whether a queue exists, how it is configured, and which groups it has."""
        before = self._registry.by_number.get(number)
        config = await self._store.queue(number)
        known = self._registry.by_number.get(number)
        if config is None:
            if known is not None and known is before:
                self._registry.drop_queue(known)
            return None
        if known is None:
            is_gone = number in self._registry.dropped
            return None if is_gone else await self._loader.load_queue(config)
        if known.config != config:
            self._registry.reconfigure(known, config)
        await self._look_at_groups(known)
        return known

    async def reload(self, number: int) -> None:
        """Read all of a queue again."""
        queue = await self.look_at(number)
        if queue is None:
            return
        before = list(queue.partitions.values())
        stored = await self._reload_pages(queue, list(queue.groups))
        if not self._registry.is_known(queue):
            return
        async for partition in yielding(before):
            if partition.number not in stored:
                self._registry.drop_partition(partition)
        self._registry.refresh_queue(queue)

    async def reload_all(self) -> None:
        numbers = {queue.number for queue in await self._store.queues()}
        known = {queue.config.number for queue in self._registry.queues.values()}
        for number in numbers | known:
            await self.reload(number)

    async def add(self, partition: Partition) -> None:
        """A partition that another server made."""
        number = partition.queue
        queue = self._registry.by_number.get(number) or await self.look_at(number)
        if queue is not None:
            self._registry.adopt(queue, partition)

    async def _look_at_groups(self, queue: QueueState) -> None:
        before = list(queue.groups.values())
        stored = {each.group: each for each in await self._store.subscriptions(queue.config.number)}
        for group in before:
            if not group.removed and not _is(group, stored.get(group.name)):
                self._registry.drop_group(group)
        new = [
            each
            for each in stored.values()
            if each.group not in queue.groups and each.id not in self._registry.dropped
        ]
        for subscription in new:
            await self._loader.load_group(queue, subscription)

    async def _reload_pages(self, queue: QueueState, groups: Sequence[str]) -> set[int]:
        """Read the partitions of a queue, with the states of groups; return their numbers."""
        numbers: set[int] = set()
        last: Partition | None = None
        while self._registry.is_known(queue):
            found = await self._store.partitions(queue.config.number, after=last, limit=PAGE)
            page = list(found)
            await self._reload_page(queue, page, groups)
            numbers.update(each.number for each in page)
            if len(page) < PAGE:
                break
            last = page[-1]
        return numbers

    async def _reload_page(
        self, queue: QueueState, page: Sequence[Partition], groups: Sequence[str]
    ) -> None:
        numbers = [each.number for each in page]
        reloaded = [queue.groups[name] for name in groups if name in queue.groups]
        before = [(group, n) for group in reloaded for n in numbers if n in group.consumers]
        states = {
            (number, name): state
            for number, name, state in await self._store.consumers(queue.config.number, numbers)
        }
        if not self._registry.is_known(queue):
            return
        for each in page:
            self._registry.adopt(queue, each)
        for group, number in before:
            partition = self._registry.partitions.get(number)
            if partition is not None and (number, group.name) not in states:
                self._registry.forget_consumer(group, partition)
        for (number, name), state in states.items():
            partition, found = self._registry.partitions.get(number), queue.groups.get(name)
            if partition is not None and found is not None:
                self._registry.apply_consumer(found, partition, state, own=False)


def _is(group: GroupState, subscription: Subscription | None) -> bool:
    return subscription is not None and subscription.id == group.subscription.id
