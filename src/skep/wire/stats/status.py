"""``GET /api/v1/status``, its buffers, and ``POST /api/v1/stats/refresh``."""

from collections.abc import Sequence
from uuid import UUID

from skep.model.address import queue_id
from skep.model.stats import ErrorCounts, LeaseCounts, QueueSummary
from skep.model.tally import Tally
from skep.wire.body import Body
from skep.wire.pagination import TimeRange
from skep.wire.stats.counts import WireCounts, to_counts
from skep.wire.stats.throughput import Efficiency, Point, WorkerStats, to_efficiency


class StatusMessages(WireCounts, frozen=True, kw_only=True):
    """``requests`` and ``batchEfficiency`` are those of the time range."""

    requests: int
    batch_efficiency: Efficiency


class StatusLeases(Body, frozen=True, kw_only=True):
    active: int
    partitions_with_leases: int
    total_batch_size: int
    total_acked: int


class ErrorRow(Body, frozen=True, kw_only=True):
    """``error`` is null without the permission to read payloads: it may quote them."""

    error: str | None
    count: int


class StatusDeadLetters(Body, frozen=True, kw_only=True):
    """``topErrors`` and ``affectedPartitions`` are those of the newest dead letters of each queue,
    at most ten thousand."""

    total_messages: int
    affected_partitions: int
    top_errors: list[ErrorRow]


class StatusQueue(Body, frozen=True, kw_only=True):
    id: UUID
    name: str
    namespace: str | None
    task: str | None
    partitions: int
    total_consumed: int


class StatusErrors(Body, frozen=True, kw_only=True):
    """In the time range: messages that will be retried, and messages that became dead letters."""

    ack_failed: int
    dlq_count: int


class StatusResponse(Body, frozen=True, kw_only=True):
    time_range: TimeRange
    bucket_minutes: int
    point_count: int
    throughput: list[Point]
    queues: list[StatusQueue]
    messages: StatusMessages
    leases: StatusLeases
    dead_letter_queue: StatusDeadLetters
    workers: list[WorkerStats]
    errors: StatusErrors


class Buffers(Body, frozen=True, kw_only=True):
    """``pendingCount`` is how many messages are buffered until push maintenance ends;
    ``dbHealthy`` is whether the store accepts writes."""

    pending_count: int
    db_healthy: bool


class Refreshed(Body, frozen=True, kw_only=True):
    """The result of one step of a refresh, which changes nothing: statistics are current."""

    success: bool = True
    count: int


class Refresh(Body, frozen=True, kw_only=True):
    partition: Refreshed
    queue: Refreshed
    namespace: Refreshed
    task: Refreshed
    system: Refreshed
    cleanup: Refreshed


def to_status_messages(summaries: Sequence[QueueSummary], tally: Tally) -> StatusMessages:
    counts = [to_counts(each.counts) for each in summaries]
    return StatusMessages(
        total=sum(each.total for each in counts),
        pending=sum(each.pending for each in counts),
        processing=sum(each.processing for each in counts),
        completed=sum(each.completed for each in counts),
        failed=sum(each.failed for each in counts),
        dead_letter=sum(each.dead_letter for each in counts),
        requests=tally.pushes + tally.pops + tally.acks,
        batch_efficiency=to_efficiency(tally),
    )


def to_leases(leases: LeaseCounts) -> StatusLeases:
    return StatusLeases(
        active=leases.active,
        partitions_with_leases=leases.partitions,
        total_batch_size=leases.held + leases.acked,
        total_acked=leases.acked,
    )


def to_status_dead_letters(
    total: int, errors: ErrorCounts, *, with_errors: bool
) -> StatusDeadLetters:
    rows = [
        ErrorRow(error=error if with_errors else None, count=count)
        for error, count in errors.reasons
    ]
    return StatusDeadLetters(
        total_messages=total,
        affected_partitions=errors.partitions,
        top_errors=rows,
    )


def to_status_queue(summary: QueueSummary) -> StatusQueue:
    queue = summary.queue
    return StatusQueue(
        id=queue_id(queue.number),
        name=queue.name,
        namespace=queue.namespace,
        task=queue.task,
        partitions=summary.partitions,
        total_consumed=summary.messages_consumed,
    )
