"""``GET /api/v1/resources/*``: statistics of queues, partitions and labels."""

from collections.abc import Sequence
from datetime import datetime
from statistics import fmean, median
from typing import Annotated
from uuid import UUID

import msgspec

from skep.model.name import QUEUE_MODE
from skep.model.queue import Queue
from skep.model.stats import PartitionSummary, QueueStats, QueueSummary
from skep.wire.admin.queue import WireOptions, from_options
from skep.wire.body import Body
from skep.wire.pagination import Skip
from skep.wire.stats.counts import (
    ManyLimit,
    PartitionHead,
    QueueHead,
    WireCounts,
    head_of,
    partition_head_of,
    to_counts,
)


class QueuesQuery(Body, frozen=True, kw_only=True):
    namespace: str | None = None
    task: str | None = None
    limit: ManyLimit = 1000
    offset: Skip = 0


class QueueRow(QueueHead, frozen=True, kw_only=True):
    """``consumed`` and ``batches`` are sums over all groups."""

    options: WireOptions
    partitions: int
    groups: int
    messages: WireCounts
    consumed: int
    batches: int


class QueuesResponse(Body, frozen=True, kw_only=True):
    """``total`` counts the queues of all pages."""

    queues: list[QueueRow]
    total: int


class PartitionDetail(PartitionHead, frozen=True, kw_only=True):
    """``consumed`` and ``batches`` are sums over all groups."""

    start: int
    end: int
    stats: WireCounts
    consumed: int
    batches: int
    oldest_message: datetime | None
    newest_message: datetime | None


class QueueDetail(QueueHead, frozen=True, kw_only=True):
    """A queue with its partitions; ``depth`` is the backlog of the group furthest behind."""

    options: WireOptions
    groups: int
    pushed: int
    depth: int
    partition_count: int
    partitions: list[PartitionDetail]
    totals: WireCounts
    consumed: int
    batches: int


class NamespaceRow(Body, frozen=True, kw_only=True):
    namespace: str | None
    queues: int
    partitions: int
    messages: WireCounts


class NamespacesResponse(Body, frozen=True, kw_only=True):
    namespaces: list[NamespaceRow]


class TaskRow(Body, frozen=True, kw_only=True):
    task: str | None
    queues: int
    partitions: int
    messages: WireCounts


class TasksResponse(Body, frozen=True, kw_only=True):
    tasks: list[TaskRow]


class PartitionsQuery(Body, frozen=True, kw_only=True):
    queue: str | None = None
    min_depth: Annotated[int, msgspec.Meta(ge=0)] = 0
    limit: ManyLimit = 1000
    offset: Skip = 0


class PartitionRow(WireCounts, frozen=True, kw_only=True):
    """``depth`` is the number of pending messages."""

    id: UUID
    name: str
    queue: str
    namespace: str | None
    task: str | None
    queue_priority: int
    created_at: datetime
    depth: int
    oldest_message: datetime | None
    newest_message: datetime | None


class PartitionsResponse(Body, frozen=True, kw_only=True):
    partitions: list[PartitionRow]


class Spread(Body, frozen=True, kw_only=True):
    avg: float = 0
    median: float = 0
    min: float = 0
    max: float = 0


class LagSpread(Body, frozen=True, kw_only=True):
    """The lag of all groups: in seconds, and in messages."""

    time: Spread
    offset: Spread


class Throughput(Body, frozen=True, kw_only=True):
    ingested_per_second: float
    processed_per_second: float


class ResourceOverview(Body, frozen=True, kw_only=True):
    """Totals over all visible queues at ``timestamp``."""

    queues: int
    partitions: int
    namespaces: int
    tasks: int
    messages: WireCounts
    lag: LagSpread
    throughput: Throughput
    timestamp: datetime


class DepthQuery(Body, frozen=True, kw_only=True):
    group: str = QUEUE_MODE
    limit: ManyLimit = 1000


class PartitionDepth(Body, frozen=True, kw_only=True):
    partition: str
    pending: int


class DepthResponse(Body, frozen=True, kw_only=True):
    """The backlog of a group. Only partitions with pending messages are listed."""

    queue: str
    group: str
    pending: int
    partitions_pending: int
    effective_pending: int
    partitions: list[PartitionDepth]


def to_row(summary: QueueSummary) -> QueueRow:
    queue = summary.queue
    return QueueRow(
        **head_of(queue),
        options=from_options(queue.options),
        partitions=summary.partitions,
        groups=summary.groups,
        messages=to_counts(summary.counts),
        consumed=summary.messages_consumed,
        batches=summary.batches_consumed,
    )


def to_detail(
    summary: QueueSummary, stats: QueueStats, partitions: list[PartitionDetail]
) -> QueueDetail:
    queue = summary.queue
    return QueueDetail(
        **head_of(queue),
        options=from_options(queue.options),
        groups=summary.groups,
        pushed=stats.pushed,
        depth=stats.depth,
        partition_count=summary.partitions,
        partitions=partitions,
        totals=to_counts(summary.counts),
        consumed=summary.messages_consumed,
        batches=summary.batches_consumed,
    )


def to_partition_detail(partition: PartitionSummary) -> PartitionDetail:
    return PartitionDetail(
        **partition_head_of(partition),
        start=partition.start,
        end=partition.end,
        stats=to_counts(partition.counts),
        consumed=partition.messages_consumed,
        batches=partition.batches_consumed,
        oldest_message=partition.first_at,
        newest_message=partition.newest_at,
    )


def to_partition_row(queue: Queue, partition: PartitionSummary) -> PartitionRow:
    counts = partition.counts
    return PartitionRow(
        **msgspec.structs.asdict(to_counts(counts)),
        **partition_head_of(partition),
        queue=queue.name,
        namespace=queue.namespace,
        task=queue.task,
        queue_priority=queue.options.priority,
        depth=counts.pending,
        oldest_message=partition.first_at,
        newest_message=partition.newest_at,
    )


def to_spread(values: Sequence[float]) -> Spread:
    if not values:
        return Spread()
    return Spread(avg=fmean(values), median=median(values), min=min(values), max=max(values))
