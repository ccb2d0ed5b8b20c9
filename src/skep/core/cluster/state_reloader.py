"""Reading again what the store knows of a queue, where that may be more than is known here.

While it is read this server goes on. So only what was known before is taken for gone if it is not
found, and what was dropped meanwhile stays dropped if it is.
"""

from collections.abc import Sequence

from skep.core.aio.slicing import yielding
from skep.core.state.catalogue import Catalogue
from skep.core.state.loader import PAGE
from skep.core.state.queue_state import GroupState, QueueState
from skep.model.queue import Partition, Subscription
from skep.store.protocol import CatalogueStore


class StateReloader:
    def __init__(self, store: CatalogueStore, catalogue: Catalogue) -> None:
        self._store = store
        self._catalogue = catalogue

    async def look_at(self, number: int) -> QueueState | None:
        """See whether a queue exists, how it is configured, and which groups it has."""
        before = self._catalogue.by_number.get(number)
        config = await self._store.queue(number)
        known = self._catalogue.by_number.get(number)
        if config is None:
            if known is not None and known is before:
                self._catalogue.drop_queue(known)
            return None
        if known is None:
            is_gone = number in self._catalogue.dropped
            return None if is_gone else await self._catalogue.load_queue(config)
        if known.config != config:
            self._catalogue.reconfigure(known, config)
        await self._look_at_groups(known)
        return known

    async def renew(self, number: int) -> None:
        """Read all of a queue again."""
        queue = await self.look_at(number)
        if queue is None:
            return
        before = list(queue.partitions.values())
        stored = await self._renew_pages(queue, list(queue.groups))
        if not self._catalogue.is_known(queue):
            return
        async for partition in yielding(before):
            if partition.number not in stored:
                self._catalogue.drop_partition(partition)
        self._catalogue.refresh_queue(queue)

    async def renew_all(self) -> None:
        numbers = {queue.number for queue in await self._store.queues()}
        known = {queue.config.number for queue in self._catalogue.queues.values()}
        for number in numbers | known:
            await self.renew(number)

    async def add(self, partition: Partition) -> None:
        """A partition that another server made."""
        number = partition.queue
        queue = self._catalogue.by_number.get(number) or await self.look_at(number)
        if queue is not None:
            self._catalogue.adopt(queue, partition)

    async def _look_at_groups(self, queue: QueueState) -> None:
        before = list(queue.groups.values())
        stored = {each.group: each for each in await self._store.subscriptions(queue.config.number)}
        for group in before:
            if not group.removed and not _is(group, stored.get(group.name)):
                self._catalogue.drop_group(group)
        new = [
            each
            for each in stored.values()
            if each.group not in queue.groups and each.id not in self._catalogue.dropped
        ]
        for subscription in new:
            await self._catalogue.load_group(queue, subscription)

    async def _renew_pages(self, queue: QueueState, groups: Sequence[str]) -> set[int]:
        """Read the partitions of a queue, with the states of groups; return their numbers."""
        numbers: set[int] = set()
        last: Partition | None = None
        while self._catalogue.is_known(queue):
            found = await self._store.partitions(queue.config.number, after=last, limit=PAGE)
            page = list(found)
            await self._renew_page(queue, page, groups)
            numbers.update(each.number for each in page)
            if len(page) < PAGE:
                break
            last = page[-1]
        return numbers

    async def _renew_page(
        self, queue: QueueState, page: Sequence[Partition], groups: Sequence[str]
    ) -> None:
        numbers = [each.number for each in page]
        renewed = [queue.groups[name] for name in groups if name in queue.groups]
        before = [(group, n) for group in renewed for n in numbers if n in group.consumers]
        states = {
            (number, name): state
            for number, name, state in await self._store.consumers(queue.config.number, numbers)
        }
        if not self._catalogue.is_known(queue):
            return
        for each in page:
            self._catalogue.adopt(queue, each)
        for group, number in before:
            partition = self._catalogue.partitions.get(number)
            if partition is not None and (number, group.name) not in states:
                self._catalogue.forget_consumer(group, partition)
        for (number, name), state in states.items():
            partition, found = self._catalogue.partitions.get(number), queue.groups.get(name)
            if partition is not None and found is not None:
                self._catalogue.hear(found, partition, state, own=False)


def _is(group: GroupState, subscription: Subscription | None) -> bool:
    return subscription is not None and subscription.id == group.subscription.id
