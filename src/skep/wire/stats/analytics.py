"""``GET /api/v1/analytics/*`` and ``/api/v1/status/analytics``: what happened, over time."""

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
    """``messages`` is how many were pushed."""

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
    """``topQueues`` are the ten that most was pushed to."""

    data_points: list[DataPoint]
    interval: Interval
    from_: datetime = msgspec.field(name="from")
    to: datetime
    top_queues: list[TopQueue]


class Usage(Body, frozen=True, kw_only=True):
    """What the process takes of its machine now: bytes, and seconds of a processor so far."""

    rss_bytes: int
    peak_rss_bytes: int
    user_seconds: float
    system_seconds: float


class SystemPoint(Body, frozen=True, kw_only=True):
    timestamp: datetime
    usage: Usage


class Replica(Body, frozen=True, kw_only=True):
    """A server. Its usage is known for this moment only, so there is one point at most."""

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
    """What happened to one queue in the time asked for."""

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
    """What happened to one queue from ``bucket`` on."""

    bucket: datetime


class QueueOps(Body, frozen=True, kw_only=True):
    """Only buckets in which something happened."""

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
    """How far a group is behind in a queue now."""

    queue: str
    consumer_group: str
    pending: int
    lag_seconds: float


class QueueLag(Body, frozen=True, kw_only=True):
    """How old messages were when they were delivered, and what waits now."""

    time_range: TimeRange
    bucket_minutes: int
    series: list[LagBucket]
    queues: list[GroupPending]


class LatenciesQuery(WindowQuery, frozen=True, kw_only=True):
    """A page ends with the minute in which it has ``limit`` rows."""

    limit: ManyLimit = 1000


class LatencyRow(Body, frozen=True, kw_only=True):
    """How long took what a group acknowledged in the minute from ``beginsAt`` on.

    Each of the ``buckets`` is a number of seconds and how many messages took so long, give or take
    2 %. A row without names is of all groups that were too many to be told apart.
    """

    queue: str
    consumer_group: str
    begins_at: datetime
    messages: int
    buckets: list[tuple[float, int]]


class LatenciesResponse(Body, frozen=True, kw_only=True):
    """The minutes of all servers together, the oldest first; ``next`` is the ``from`` of the page
    that follows."""

    time_range: TimeRange
    series: list[LatencyRow]
    next: datetime | None


class ParkedRow(Body, frozen=True, kw_only=True):
    """Long polls that wait at this server."""

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
