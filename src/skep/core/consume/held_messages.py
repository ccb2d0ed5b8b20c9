"""From ids as clients know them to places as the broker does."""

from collections.abc import Sequence
from uuid import UUID

from skep.core.cluster.peer_sync import PeerSync
from skep.core.log.segment_reader import SegmentReader
from skep.core.state.lease_table import LeasedPartition, LeaseTable
from skep.core.state.queue_state import PartitionState
from skep.core.state.registry import Registry
from skep.errors import Invalid
from skep.model import ranges
from skep.model.address import address_of
from skep.model.name import LeaseId, Offset
from skep.model.segment import Segment
from skep.store.protocol import LogStore


class HeldMessages:
    def __init__(
        self,
        store: LogStore,
        registry: Registry,
        lease_table: LeaseTable,
        peer_sync: PeerSync,
        segment_reader: SegmentReader,
    ) -> None:
        self._store = store
        self._registry = registry
        self._lease_table = lease_table
        self._peer_sync = peer_sync
        self._segment_reader = segment_reader

    def names(self, number: int) -> tuple[str, str] | None:
        """The names of the queue and the partition with a number, as far as is known here."""
        found = self._registry.find_partition(number)
        return None if found is None else (found.queue.config.name, found.name)

    async def partition(self, number: int) -> tuple[str, str] | None:
        """The names of the queue and the partition with a number."""
        return await self._peer_sync.find(lambda: self.names(number))

    async def queues_of_lease(self, lease_id: LeaseId) -> set[str]:
        """The queues that a lease holds something of."""
        return {group.queue.config.name for group, _ in await self._places(lease_id)}

    async def group_of_lease(self, lease_id: LeaseId) -> str | None:
        return next((group.name for group, _ in await self._places(lease_id)), None)

    async def lease_on(self, partition: int, leases: Sequence[LeaseId]) -> LeaseId | None:
        """Which of some leases holds a partition."""
        for lease in leases:
            if await self._held(lease, partition):
                return lease
        return None

    async def held(self, lease_id: LeaseId, partition: int) -> list[Offset]:
        """The offsets of a partition that a lease holds and that are not settled."""
        place = await self._held(lease_id, partition)
        return [] if place is None else _open(place)

    async def all_held(self, lease_id: LeaseId) -> list[tuple[int, Offset]]:
        """All that a lease holds and that is not settled, as partition and offset."""
        return [
            (place[1].number, offset)
            for place in await self._places(lease_id)
            for offset in _open(place)
        ]

    async def offsets(
        self, lease_id: LeaseId, partition: int, transaction_ids: Sequence[str]
    ) -> list[Offset | None]:
        """Where messages are in a partition, by transaction id.

        Mostly they are what the lease holds, and that is in memory.
        """
        held = await self._held(lease_id, partition)
        known = await self._peer_sync.find(lambda: self._registry.find_partition(partition))
        if known is None:
            return [None] * len(transaction_ids)
        here = _by_id(await self._run(held)) if held else {}
        return [
            here[chosen] if chosen in here else await self._look_up(known, chosen)
            for chosen in transaction_ids
        ]

    async def _places(self, lease_id: LeaseId) -> Sequence[LeasedPartition]:
        return await self._peer_sync.find(lambda: self._lease_table.partitions_of(lease_id))

    async def _held(self, lease_id: LeaseId, partition: int) -> LeasedPartition | None:
        places = await self._places(lease_id)
        return next((place for place in places if place[1].number == partition), None)

    async def _run(self, held: LeasedPartition) -> list[Segment]:
        group, partition = held
        consumer = group.consumer(partition)
        count = consumer.run_end - consumer.cursor
        return await self._segment_reader.segments(
            partition, consumer.cursor, messages=count, size=1 << 62
        )

    async def _look_up(self, partition: PartitionState, chosen: str) -> Offset | None:
        try:
            number, offset = address_of(UUID(chosen))
        except (ValueError, Invalid):
            return await self._store.find_offset(partition.number, chosen)
        if number == partition.number and await self._peer_sync.find(
            lambda: partition.start <= offset < partition.end
        ):
            return offset
        return await self._store.find_offset(partition.number, chosen)


def _open(place: LeasedPartition) -> list[Offset]:
    """The offsets of a run that are not settled."""
    consumer = place[0].consumer(place[1])
    return list(ranges.missing(consumer.acked, consumer.cursor, consumer.run_end))


def _by_id(segments: list[Segment]) -> dict[str, Offset]:
    return {
        chosen: segment.start + index
        for segment in segments
        for index, chosen in enumerate(segment.columns.transaction_ids or ())
        if chosen is not None
    }
