"""Whether the queues and the caller's quota have room for what is about to be published."""

from collections.abc import Mapping, Sequence

from skep.core.aio import yielding
from skep.core.produce.capacity import FillLevel
from skep.core.sink import manifest
from skep.core.sink.chunk import decode
from skep.core.sink.manifest import ChunkRef
from skep.core.sink.publication import Publication, rows_by_queue
from skep.core.state.quota import Quotas, limit_of
from skep.core.state.registry import Registry
from skep.model.change import Capacity
from skep.store.protocol import EntryStore


class Admission:
    def __init__(
        self, store: EntryStore, registry: Registry, quotas: Quotas, level: FillLevel
    ) -> None:
        self._store = store
        self._registry = registry
        self._quotas = quotas
        self._level = level

    async def check_room(self, refs: Sequence[ChunkRef]) -> None:
        """Raise ``QueueFull`` before any queue or partition is created."""
        rows = await rows_by_queue(refs)
        async for name, count in yielding(rows.items()):
            if queue := self._registry.queues.get(name):
                await self._level.capacity(queue, count)

    async def check_quota(self, refs: Sequence[ChunkRef]) -> None:
        """Raise ``QuotaExceeded`` if the caller may not create the queues and partitions."""
        self._quotas.check_later(await self._partitions(refs))

    async def capacity(self, publication: Publication, refs: Sequence[ChunkRef]) -> list[Capacity]:
        """What the commit of a publication relies on; raises ``QueueFull``."""
        rows = await rows_by_queue(refs)
        capacity: list[Capacity] = []
        for queue in publication.queues:
            capacity += await self._level.capacity(queue, rows[queue.config.name])
        return capacity

    async def _partitions(self, refs: Sequence[ChunkRef]) -> Mapping[str, set[str]]:
        """The queues of chunks, and their partitions if the caller's are limited."""
        partitions: dict[str, set[str]] = {name: set() for name in await rows_by_queue(refs)}
        if limit_of("partitions") is None:
            return partitions
        async for ref in yielding(refs):
            for value in await manifest.read_data(self._store, [ref]) or ():
                for group in decode(value).groups:
                    partitions[group.queue].add(group.partition)
        return partitions
