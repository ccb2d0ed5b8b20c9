"""What a push needs before it can be committed: its queue, its partitions, its capacity."""

from collections.abc import Sequence
from typing import NamedTuple

from skep.core.cluster.peer_sync import PeerSync
from skep.core.produce.append_builder import AppendBuilder
from skep.core.produce.capacity import FillLevel
from skep.core.produce.push_batch import PushBatch
from skep.core.state.catalogue import Catalogue
from skep.core.state.queue_state import QueueState
from skep.core.state.quota import Quotas
from skep.core.state.registry import Registry
from skep.errors import QueueFull
from skep.model.change import Append, Capacity, QueueVersion
from skep.store.protocol import LogStore


class PreparedPush(NamedTuple):
    """The appends of a batch, and what they were decided on."""

    appends: tuple[Append, ...]
    queues: tuple[QueueVersion, ...]
    capacity: tuple[Capacity, ...] = ()


class PushPreparer:
    def __init__(
        self,
        store: LogStore,
        catalogue: Catalogue,
        registry: Registry,
        quotas: Quotas,
        peer_sync: PeerSync,
        level: FillLevel,
        append_builder: AppendBuilder,
    ) -> None:
        self._store = store
        self._catalogue = catalogue
        self._registry = registry
        self._quotas = quotas
        self._peer_sync = peer_sync
        self._level = level
        self._append_builder = append_builder

    async def look_before_creating(self, batches: Sequence[PushBatch]) -> None:
        """Catch up with other servers if a queue or a partition has to be created.

        A push that is rejected must not create anything.
        """
        for batch in batches:
            queue = self._registry.queues.get(batch.queue)
            if queue is None or not all(map(queue.partitions.__contains__, batch.by_partition)):
                await self._peer_sync.catch_up()
                self._check_quotas(batches)
                return

    def _check_quotas(self, batches: Sequence[PushBatch]) -> None:
        wanted: dict[str, set[str]] = {}
        for batch in batches:
            wanted.setdefault(batch.queue, set()).update(batch.by_partition)
        self._quotas.check_later(wanted)

    async def check(self, batch: PushBatch, *, beside: int = 0, limited: bool = True) -> None:
        """Raise if a batch would be rejected, before anything is created for it.

        ``beside`` counts messages that the same change has for the queue. Without ``limited`` a
        full queue accepts it, too.
        """
        queue = self._registry.queues.get(batch.queue)
        if queue is not None:
            self._append_builder.check(queue)
            if limited:
                await self._capacity(queue, batch, beside)

    async def prepare(
        self, batch: PushBatch, producer: str | None, *, beside: int = 0, limited: bool = True
    ) -> PreparedPush | None:
        """The appends of a batch, with queue and partitions created where there are none.

        None if the queue was deleted meanwhile: the next try creates it.
        """
        queue = await self._catalogue.ensure_queue(batch.queue)
        capacity = await self._capacity(queue, batch, beside) if limited else ()
        if not await self._catalogue.ensure_partitions(queue, batch.by_partition):
            await self._peer_sync.look_at(queue.config.number)
            return None
        return PreparedPush(
            self._append_builder.build(queue, batch, producer), queue.versions, capacity
        )

    async def _capacity(
        self, queue: QueueState, batch: PushBatch, beside: int
    ) -> tuple[Capacity, ...]:
        """The capacity that a batch needs. What is stored already needs none.

        It is looked up only if it matters: if the queue would be full otherwise.
        """
        try:
            return await self._level.capacity(queue, len(batch), beside)
        except QueueFull:
            if None in batch.ids:
                raise
        return await self._level.capacity(queue, await self._count_new(queue, batch), beside)

    async def _count_new(self, queue: QueueState, batch: PushBatch) -> int:
        new = len(batch)
        for name, indexes in batch.by_partition.items():
            partition = queue.partitions.get(name)
            if partition is None:
                continue
            for index in indexes:
                offset = await self._store.find_offset(partition.number, batch.ids[index] or "")
                new -= offset is not None
        return new
