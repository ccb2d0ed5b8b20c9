"""``GET /api/v1/analytics/*`` and ``/api/v1/status/analytics``: statistics over time."""

from datetime import datetime
from typing import Any, Literal

import msgspec

from skep.model.latency import GroupLatency, seconds_of
from skep.model.name import MILLISECOND, to_datetime
from skep.model.tally import Bucket, Tally
from skep.wire.body import Body
from skep.wire.pagination import TimeRange
from skep.wire.stats.counts import ManyLimit
from skep.wire.stats.throughput import Point, WorkerStats
from skep.wire.stats.time_window import WindowQuery

Interval = Literal["minute", "hour", "day"]
INTERVALS: dict[Interval, int] = {"minute": 1, "hour": 60, "day": 1440}


class AnalyticsQuery(WindowQuery, frozen=True, kw_only=True):
    interval: Interval = "hour"


class DataPoint(Body, frozen=True, kw_only=True):
    """``messages`` counts pushed messages."""

    timestamp: datetime
    messages: int
    processed: int
    failed: int
    dead_letters: int


class TopQueue(Body, frozen=True, kw_only=True):
    name: str
    messages_ingested: int
    messages_processed: int
    failed: int
    dead_letters: int


class Analytics(Body, frozen=True, kw_only=True):
    """``topQueues`` are the ten queues with the most pushed messages."""

    data_points: list[DataPoint]
    interval: Interval
    from_: datetime = msgspec.field(name="from")
    to: datetime
    top_queues: list[TopQueue]


class Usage(Body, frozen=True, kw_only=True):
    """Memory of the process in bytes, and its CPU time so far in seconds."""

    rss_bytes: int
    peak_rss_bytes: int
    user_seconds: float
    system_seconds: float


class SystemPoint(Body, frozen=True, kw_only=True):
    timestamp: datetime
    usage: Usage


class Replica(Body, frozen=True, kw_only=True):
    """A server. Its usage is only known for the present, so there is at most one point."""

    hostname: str
    port: int | None
    worker_id: str
    time_series: list[SystemPoint]


class SystemMetrics(Body, frozen=True, kw_only=True):
    time_range: TimeRange
    replicas: list[Replica]
    replica_count: int
    bucket_minutes: int
    point_count: int


class QueueTally(Body, frozen=True, kw_only=True):
    """Operations on one queue over a time range."""

    queue: str
    push_messages: int
    pop_messages: int
    ack_messages: int
    failed_messages: int
    dead_letters: int
    push_requests: int
    pop_requests: int
    ack_requests: int
    avg_lag_ms: float
    max_lag_ms: float


class WorkerSummary(Body, frozen=True, kw_only=True):
    total_push_messages: int
    total_pop_messages: int
    total_ack_messages: int
    total_failed_messages: int
    total_dead_letters: int
    avg_lag_ms: float
    max_lag_ms: float


class WorkerMetrics(Body, frozen=True, kw_only=True):
    time_range: TimeRange
    bucket_minutes: int
    point_count: int
    time_series: list[Point]
    workers: list[WorkerStats]
    queues: list[QueueTally]
    summary: WorkerSummary


class PostgresStats(Body, frozen=True, kw_only=True):
    """Queen's shape without content: this server collects no statistics of PostgreSQL.

    ``collected`` is always false, and the lists are always empty.
    """

    collected: Literal[False] = False
    reason: str = "not collected by this server; query the pg_stat views of the database"
    database_cache: tuple[()] = ()
    table_cache: tuple[()] = ()
    index_cache: tuple[()] = ()
    cache_summary: tuple[()] = ()
    dead_tuples: tuple[()] = ()
    hot_updates: tuple[()] = ()
    active_queries: tuple[()] = ()
    autovacuum_status: tuple[()] = ()
    buffer_config: tuple[()] = ()
    buffer_usage: tuple[()] = ()
    table_sizes: tuple[()] = ()


class QueueBucket(QueueTally, frozen=True, kw_only=True):
    """Operations on one queue in the bucket from ``bucket`` on."""

    bucket: datetime


class QueueOps(Body, frozen=True, kw_only=True):
    """Only buckets with operations."""

    time_range: TimeRange
    bucket_minutes: int
    series: list[QueueBucket]
    queues: list[str]


class LagBucket(Body, frozen=True, kw_only=True):
    bucket: datetime
    queue: str
    avg_lag_ms: float
    max_lag_ms: float


class GroupPending(Body, frozen=True, kw_only=True):
    """The current backlog of a group in a queue."""

    queue: str
    consumer_group: str
    pending: int
    lag_seconds: float


class QueueLag(Body, frozen=True, kw_only=True):
    """The age of messages at delivery over time, and the current backlog."""

    time_range: TimeRange
    bucket_minutes: int
    series: list[LagBucket]
    queues: list[GroupPending]


class LatenciesQuery(WindowQuery, frozen=True, kw_only=True):
    """A page ends with the minute in which it reaches ``limit`` rows."""

    limit: ManyLimit = 1000


class LatencyRow(Body, frozen=True, kw_only=True):
    """Latencies of the messages that a group acknowledged in the minute from ``beginsAt`` on.

    Each of the ``buckets`` is a latency in seconds, within 2 %, and the number of messages with it.
    A row without names is for all groups beyond the limit of separate rows.
    """

    queue: str
    consumer_group: str
    begins_at: datetime
    messages: int
    buckets: list[tuple[float, int]]


class LatenciesResponse(Body, frozen=True, kw_only=True):
    """Of all servers together, oldest first; ``next`` is the ``from`` of the next page."""

    time_range: TimeRange
    series: list[LatencyRow]
    next: datetime | None


class ParkedRow(Body, frozen=True, kw_only=True):
    """Long polls parked at this server."""

    queue: str
    consumer_group: str
    worker_id: str
    parked: int


class Parked(Body, frozen=True, kw_only=True):
    timestamp: datetime
    total: int
    replicas: list[ParkedRow]


def to_data_point(bucket: Bucket) -> DataPoint:
    tally = bucket.tally
    return DataPoint(
        timestamp=to_datetime(bucket.start),
        messages=tally.pushed,
        processed=tally.acked,
        failed=tally.failed,
        dead_letters=tally.dead_letters,
    )


def to_top_queue(queue: str, tally: Tally) -> TopQueue:
    return TopQueue(
        name=queue,
        messages_ingested=tally.pushed,
        messages_processed=tally.acked,
        failed=tally.failed,
        dead_letters=tally.dead_letters,
    )


def to_lag_bucket(queue: str, bucket: Bucket) -> LagBucket:
    return LagBucket(
        bucket=to_datetime(bucket.start),
        queue=queue,
        avg_lag_ms=bucket.tally.lag_mean / MILLISECOND,
        max_lag_ms=bucket.tally.lag_max / MILLISECOND,
    )


def to_latency(found: GroupLatency) -> LatencyRow:
    return LatencyRow(
        queue=found.queue,
        consumer_group=found.group,
        begins_at=to_datetime(found.begins_at),
        messages=sum(found.sketch.values()),
        buckets=[(seconds_of(bucket), found.sketch[bucket]) for bucket in sorted(found.sketch)],
    )


def to_queue_tally(queue: str, tally: Tally) -> QueueTally:
    return QueueTally(queue=queue, **_tally(tally))


def to_queue_bucket(queue: str, bucket: Bucket) -> QueueBucket:
    return QueueBucket(queue=queue, bucket=to_datetime(bucket.start), **_tally(bucket.tally))


def to_summary(tally: Tally) -> WorkerSummary:
    return WorkerSummary(
        total_push_messages=tally.pushed,
        total_pop_messages=tally.popped,
        total_ack_messages=tally.acked,
        total_failed_messages=tally.failed,
        total_dead_letters=tally.dead_letters,
        avg_lag_ms=tally.lag_mean / MILLISECOND,
        max_lag_ms=tally.lag_max / MILLISECOND,
    )


def _tally(tally: Tally) -> dict[str, Any]:
    return {
        "push_messages": tally.pushed,
        "pop_messages": tally.popped,
        "ack_messages": tally.acked,
        "failed_messages": tally.failed,
        "dead_letters": tally.dead_letters,
        "push_requests": tally.pushes,
        "pop_requests": tally.pops,
        "ack_requests": tally.acks,
        "avg_lag_ms": tally.lag_mean / MILLISECOND,
        "max_lag_ms": tally.lag_max / MILLISECOND,
    }
