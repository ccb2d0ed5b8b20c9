"""Message counts of single partitions."""

from skep.core.aio import yielding
from skep.core.state import message_status
from skep.core.state.partition_order import in_order
from skep.core.state.queue_state import PartitionState, QueueState
from skep.model.name import to_datetime
from skep.model.stats import Counts, PartitionSummary
from skep.store.protocol import DeadLetterStore

ALL = 1 << 62


class PartitionSummaryReader:
    def __init__(self, store: DeadLetterStore) -> None:
        self._store = store

    async def list(
        self, queue: QueueState, *, min_pending: int, offset: int, limit: int
    ) -> list[PartitionSummary]:
        """Partitions of a queue with at least ``min_pending`` pending messages, oldest first."""
        now = self._store.clock.now()
        summaries: list[PartitionSummary] = []
        async for partition in yielding(await in_order(queue)):
            if len(summaries) == limit:
                break
            counts = message_status.count(partition, queue.groups.values(), now)
            if counts.pending < min_pending:
                continue
            if offset:
                offset -= 1
                continue
            summaries.append(await self._summary(partition, counts))
        return summaries

    async def _summary(self, partition: PartitionState, counts: Counts) -> PartitionSummary:
        dead_letters = await self._store.given_up(partition.number, 0, ALL)
        consumers = [group.consumer(partition) for group in partition.queue.groups.values()]
        is_empty = partition.end == partition.start
        return PartitionSummary(
            queue=partition.queue.config.name,
            name=partition.name,
            number=partition.number,
            start=partition.start,
            end=partition.end,
            counts=counts + Counts(dead_letters=len(dead_letters)),
            messages_consumed=sum(consumer.messages_consumed for consumer in consumers),
            batches_consumed=sum(consumer.batches_consumed for consumer in consumers),
            created_at=to_datetime(partition.created_at),
            first_at=None if is_empty else to_datetime(partition.first_at),
            newest_at=to_datetime(partition.newest_at) if partition.newest_at else None,
        )
