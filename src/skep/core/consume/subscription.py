"""Where a group starts in a queue: decided once, at its first contact with the queue."""

from collections.abc import Sequence
from datetime import datetime
from typing import overload
from uuid import uuid4

from skep.core.aio import KeyedLocks, run_to_completion, yielding
from skep.core.cluster.peer_sync import PeerSync
from skep.core.state.catalogue import Catalogue
from skep.core.state.queue_state import GroupState, QueueState
from skep.core.state.quota import Quotas
from skep.errors import QueueNotFound
from skep.model.consumer import ConsumerState
from skep.model.name import Instant, from_datetime
from skep.model.queue import Subscription
from skep.store.protocol import LogStore, StoredConsumer


class Seeds(Sequence[StoredConsumer]):
    """The first states of a group, built on access.

    The garbage collector would visit a million of them, and stop the process meanwhile.
    """

    def __init__(self, group: str) -> None:
        self._group = group
        self._partitions: list[int] = []
        self._states: list[ConsumerState] = []

    def add(self, partition: int, state: ConsumerState) -> None:
        self._partitions.append(partition)
        self._states.append(state)

    def __len__(self) -> int:
        return len(self._states)

    @overload
    def __getitem__(self, index: int) -> StoredConsumer: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[StoredConsumer]: ...
    def __getitem__(self, index: int | slice) -> StoredConsumer | Sequence[StoredConsumer]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        return StoredConsumer(self._partitions[index], self._group, self._states[index])


class Subscriptions:
    def __init__(
        self, store: LogStore, catalogue: Catalogue, quotas: Quotas, peer_sync: PeerSync
    ) -> None:
        self._store = store
        self._catalogue = catalogue
        self._quotas = quotas
        self._peer_sync = peer_sync
        self._registering = KeyedLocks[tuple[int, str]]()

    def find(self, queue: QueueState, name: str) -> GroupState | None:
        """The group, if its first contact with the queue is complete."""
        known = queue.groups.get(name)
        return None if known is None or known.starting else known

    async def contact(
        self, queue: QueueState, name: str, mode: str, from_at: datetime | None
    ) -> GroupState:
        """The group after its first contact with the queue, which decides where it starts."""
        with self._quotas.reserve("groups", queue.config.name, [name]):
            return await run_to_completion(self._register(queue, name, mode, from_at))

    async def _register(
        self, queue: QueueState, name: str, mode: str, from_at: datetime | None
    ) -> GroupState:
        async with self._registering.of((queue.config.number, name)):
            # It may have been elsewhere, and it starts behind what is there now.
            if mode == "all" and from_at is None:
                await self._peer_sync.catch_up()
            else:
                await self._peer_sync.complete(queue.config.name)
            known = queue.groups.get(name)
            if known is not None:
                return known
            start = None if from_at is None else from_datetime("subscription_from", from_at)
            subscription = Subscription(
                id=str(uuid4()),
                queue=queue.config.number,
                group=name,
                mode="timestamp" if start is not None else mode,
                from_at=start,
                created_at=self._store.clock.now(),
            )
            seeds = await self._seeds(queue, name, mode, start)
            if not await self._catalogue.add_first_contact(queue, subscription, seeds):
                await self._peer_sync.look_at(queue.config.number)
            if name not in queue.groups:
                raise QueueNotFound(queue.config.name)
            return queue.groups[name]

    async def _seeds(
        self, queue: QueueState, group: str, mode: str, start: Instant | None
    ) -> "Seeds":
        """A state for each partition of which the group skips something."""
        seeds = Seeds(group)
        if mode == "all" and start is None:
            return seeds
        now = self._store.clock.now()
        async for partition in yielding(list(queue.partitions.values())):
            if start is None or start >= now:
                cursor = partition.end
            else:
                cursor = await self._store.offset_at(partition.number, start)
            oldest_at = now if cursor == partition.end else start or 0
            seeds.add(
                partition.number, ConsumerState(version=1, cursor=cursor, oldest_at=oldest_at)
            )
        return seeds

    async def remove(self, group: GroupState) -> None:
        """Delete a group; the next pop under its name is a first contact again."""
        # A waiting consumer pops again at once, and must not get the group that is removed.
        async with self._registering.of((group.queue.config.number, group.name)):
            if not group.removed:
                await self._catalogue.forget_group(group)
