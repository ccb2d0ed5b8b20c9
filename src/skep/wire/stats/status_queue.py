"""``GET /api/v1/status/queues``, one queue, and its messages."""

from datetime import datetime

import msgspec

from skep.model.stats import MessageStatus, PartitionSummary, QueueSummary
from skep.wire.body import Body
from skep.wire.message.message import WireMessage
from skep.wire.pagination import Limit, Pagination, Skip
from skep.wire.stats.counts import (
    PartitionHead,
    QueueHead,
    WireCounts,
    head_of,
    partition_head_of,
    to_counts,
)


class Age(Body, frozen=True, kw_only=True):
    seconds: float
    formatted: str


class StatusQueuesQuery(Body, frozen=True, kw_only=True):
    namespace: str | None = None
    task: str | None = None
    limit: Limit = 100
    offset: Skip = 0


class StatusQueueRow(QueueHead, frozen=True, kw_only=True):
    """``lag`` is the age of the oldest waiting message; null if none waits."""

    partitions: int
    messages: WireCounts
    lag: Age | None


class StatusQueues(Body, frozen=True, kw_only=True):
    queues: list[StatusQueueRow]
    pagination: Pagination


class QueueConfig(Body, frozen=True, kw_only=True):
    lease_time: int
    retry_limit: int
    retry_delay: int
    ttl: int
    max_queue_size: int
    dead_letter_queue: bool


class StatusQueueHead(QueueHead, frozen=True, kw_only=True):
    config: QueueConfig


class StatusCursor(Body, frozen=True, kw_only=True):
    """Sums over all groups."""

    total_consumed: int
    batches_consumed: int


class StatusPartition(PartitionHead, frozen=True, kw_only=True):
    last_activity: datetime | None
    messages: WireCounts
    cursor: StatusCursor


class StatusTotals(Body, frozen=True, kw_only=True):
    messages: WireCounts
    partitions: int
    consumed: int
    batches: int


class StatusQueueDetail(Body, frozen=True, kw_only=True):
    queue: StatusQueueHead
    totals: StatusTotals
    partitions: list[StatusPartition]


class StatusMessagesQuery(Body, frozen=True, kw_only=True):
    status: MessageStatus | None = None
    partition: str | None = None
    from_: datetime | None = msgspec.field(default=None, name="from")
    to: datetime | None = None
    before: str | None = None
    limit: Limit = 100
    offset: Skip = 0


class QueueMessages(Body, frozen=True, kw_only=True):
    messages: list[WireMessage]
    pagination: Pagination
    queue: str
    next: str | None


def to_status_row(summary: QueueSummary, lag: float | None) -> StatusQueueRow:
    queue = summary.queue
    return StatusQueueRow(
        **head_of(queue),
        partitions=summary.partitions,
        messages=to_counts(summary.counts),
        lag=None if lag is None else Age(seconds=lag, formatted=to_duration_text(lag)),
    )


def to_status_detail(summary: QueueSummary, partitions: list[StatusPartition]) -> StatusQueueDetail:
    queue, options = summary.queue, summary.queue.options
    return StatusQueueDetail(
        queue=StatusQueueHead(
            **head_of(queue),
            config=QueueConfig(
                lease_time=options.lease_time,
                retry_limit=options.retry_limit,
                retry_delay=options.retry_delay,
                ttl=options.ttl,
                max_queue_size=options.max_size,
                dead_letter_queue=options.dead_letter_queue,
            ),
        ),
        totals=StatusTotals(
            messages=to_counts(summary.counts),
            partitions=summary.partitions,
            consumed=summary.messages_consumed,
            batches=summary.batches_consumed,
        ),
        partitions=partitions,
    )


def to_status_partition(partition: PartitionSummary) -> StatusPartition:
    return StatusPartition(
        **partition_head_of(partition),
        last_activity=partition.newest_at,
        messages=to_counts(partition.counts),
        cursor=StatusCursor(
            total_consumed=partition.messages_consumed,
            batches_consumed=partition.batches_consumed,
        ),
    )


def to_duration_text(seconds: float) -> str:
    """A duration for people: 1d 2h, 3m 4s."""
    rest = int(seconds)
    parts = []
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0s"
