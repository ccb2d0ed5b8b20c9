"""Builds the messages of staged chunks, so that one commit can append them."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from skep.core.aio import yielding
from skep.core.cluster.peer_sync import PeerSync
from skep.core.limits import Limits
from skep.core.log.encryption import KeyRing
from skep.core.sink import manifest
from skep.core.sink.chunk import decode
from skep.core.sink.manifest import ChunkRef
from skep.core.state.catalogue import Catalogue
from skep.core.state.queue_state import QueueState
from skep.model.change import Append, QueueVersion
from skep.model.queue import Queue
from skep.model.segment import Columns, concat
from skep.store.protocol import EntryStore

_Columns = dict[str, dict[str, list[Columns]]]
"""By queue and partition, in the order of the chunks."""


class Publication(NamedTuple):
    """Messages to append, with the queues and configurations they were built for."""

    appends: tuple[Append, ...]
    queues: tuple[QueueState, ...]
    versions: tuple[QueueVersion, ...]


class PublicationBuilder:
    def __init__(
        self,
        store: EntryStore,
        catalogue: Catalogue,
        peer_sync: PeerSync,
        keys: KeyRing,
        limits: Limits,
    ) -> None:
        self._store = store
        self._catalogue = catalogue
        self._peer_sync = peer_sync
        self._keys = keys
        self._limits = limits

    async def build(self, refs: Sequence[ChunkRef]) -> Publication | None:
        """The messages of chunks, by partition; None if a chunk or a queue was deleted."""
        data = await manifest.read_data(self._store, refs)
        if data is None:
            return None
        names = await rows_by_queue(refs)
        queues = {name: await self._catalogue.ensure_queue(name) for name in names}
        configs = {name: queue.config for name, queue in queues.items()}
        versions = tuple(queue.versions[0] for queue in queues.values())
        columns = await self._columns(data, configs)
        for name, queue in queues.items():
            if not await self._catalogue.ensure_partitions(queue, columns[name]):
                await self._peer_sync.look_at(queue.config.number)
                return None
        appends: list[Append] = []
        async for name, queue in yielding(queues.items()):
            if not columns[name].keys() <= queue.partitions.keys():
                return None  # deleted while partitions of another queue were created
            appends += _appends(queue, columns[name])
        return Publication(tuple(appends), tuple(queues.values()), versions)

    async def _columns(self, data: Iterable[bytes], configs: Mapping[str, Queue]) -> _Columns:
        columns: _Columns = {name: {} for name in configs}
        for value in data:
            chunk = decode(value)
            async for group in yielding(chunk.groups):
                sealed = group.sealed_for(configs[group.queue], self._keys)
                parts = columns[group.queue].setdefault(group.partition, [])
                parts.append(sealed.columns(chunk.producer))
            # Other requests run: a part takes some milliseconds, and a step has few parts.
            await asyncio.sleep(0)
        return columns

    def fits_one_change(self, refs: Sequence[ChunkRef]) -> bool:
        """Whether chunks are few and small enough to be published in a single change."""
        limits = self._limits
        return (
            sum(ref.size for ref in refs) <= limits.publish_bytes
            and sum(ref.rows for ref in refs) <= limits.publish_messages
            and sum(ref.partitions for ref in refs) <= limits.publish_partitions
            and sum(ref.ids for ref in refs) <= limits.publish_ids
        )

    def next_step(self, refs: Sequence[ChunkRef]) -> Iterator[ChunkRef]:
        """The first chunks that are published in one step, at least one."""
        limits = self._limits
        size = rows = partitions = ids = 0
        for index, ref in enumerate(refs):
            size += ref.size
            rows += ref.rows
            partitions += ref.partitions
            ids += ref.ids
            too_much = (
                size > limits.publish_bytes // 4
                or rows > limits.publish_messages // 4
                or partitions > limits.step_partitions
                or ids > limits.step_ids
            )
            if index and too_much:
                return
            yield ref


def _appends(queue: QueueState, columns: Mapping[str, Sequence[Columns]]) -> Iterator[Append]:
    for partition, parts in columns.items():
        number = queue.partitions[partition].number
        yield Append(queue=queue.config.number, partition=number, columns=concat(parts))


async def rows_by_queue(refs: Sequence[ChunkRef]) -> dict[str, int]:
    """How many rows of chunks go to each queue."""
    counts: dict[str, int] = {}
    async for ref in yielding(refs):
        for queue, count in ref.queues.items():
            counts[queue] = counts.get(queue, 0) + count
    return counts
