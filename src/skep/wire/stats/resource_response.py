"""Statistics of queues and partitions, from responses to the broker's types."""

from skep.model.address import partition_of
from skep.model.queue import Queue
from skep.model.stats import PartitionStats, PartitionSummary, QueueStats, QueueSummary
from skep.wire.admin.queue import to_queue
from skep.wire.stats.counts import from_counts
from skep.wire.stats.resource import PartitionDetail, QueueDetail, QueueRow


def to_described(row: QueueRow | QueueDetail) -> Queue:
    """The configuration of a queue."""
    return to_queue(
        identifier=row.id,
        name=row.name,
        namespace=row.namespace,
        task=row.task,
        created_at=row.created_at,
        options=row.options,
    )


def to_summary(row: QueueRow | QueueDetail) -> QueueSummary:
    """A queue with its message counts."""
    return QueueSummary(
        queue=to_described(row),
        partitions=row.partitions if isinstance(row, QueueRow) else row.partition_count,
        groups=row.groups,
        counts=from_counts(row.messages if isinstance(row, QueueRow) else row.totals),
        messages_consumed=row.consumed,
        batches_consumed=row.batches,
    )


def to_stats(detail: QueueDetail) -> QueueStats:
    return QueueStats(
        name=detail.name,
        namespace=detail.namespace,
        task=detail.task,
        partitions=detail.partition_count,
        messages=detail.totals.total,
        pushed=detail.pushed,
        depth=detail.depth,
        groups=detail.groups,
        dead_letters=detail.totals.dead_letter,
    )


def to_partition_stats(partition: PartitionDetail) -> PartitionStats:
    return PartitionStats(
        name=partition.name,
        number=partition_of(partition.id),
        start=partition.start,
        end=partition.end,
        newest_at=partition.newest_message,
    )


def to_partition_summary(queue: str, partition: PartitionDetail) -> PartitionSummary:
    """A partition with its message counts."""
    return PartitionSummary(
        queue=queue,
        name=partition.name,
        number=partition_of(partition.id),
        start=partition.start,
        end=partition.end,
        counts=from_counts(partition.stats),
        messages_consumed=partition.consumed,
        batches_consumed=partition.batches,
        created_at=partition.created_at,
        first_at=partition.oldest_message,
        newest_at=partition.newest_message,
    )
