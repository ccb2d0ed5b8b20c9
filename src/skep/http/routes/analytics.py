"""What happened, over time."""

from skep.http.auth.principal import Permission
from skep.http.process.usage import usage_now
from skep.http.request import Call, Reply
from skep.http.routes.lookup import asked_queue
from skep.http.routes.time_window import counted, now, queues, window, workers
from skep.http.routing import get, no_queue
from skep.model.name import to_datetime
from skep.model.tally import Bucket, Tally
from skep.wire.admin.group import seconds_since
from skep.wire.admin.retention import Retention, to_retention
from skep.wire.stats.analytics import (
    INTERVALS,
    Analytics,
    AnalyticsQuery,
    GroupBehind,
    LatenciesQuery,
    LatenciesResponse,
    Parked,
    ParkedRow,
    PostgresStats,
    QueueLag,
    QueueOps,
    Replica,
    SystemMetrics,
    SystemPoint,
    WorkerMetrics,
    to_data_point,
    to_lag_bucket,
    to_latency,
    to_queue_bucket,
    to_queue_tally,
    to_summary,
    to_top_queue,
)
from skep.wire.stats.throughput import to_point
from skep.wire.stats.time_window import Window, WindowQuery

TOP = 10


async def analytics(call: Call) -> Reply:
    """What was pushed and processed, by the minute, hour or day."""
    query: AnalyticsQuery = call.query
    span = window(call, minutes=INTERVALS[query.interval])
    tallies = call.broker.insight.metrics.by_queue(await counted(call), span.start_at, span.stop_at)
    top = sorted(tallies.items(), key=lambda pair: (-pair[1].pushed, pair[0]))[:TOP]
    return Reply(
        Analytics(
            data_points=[to_data_point(bucket) for bucket in await _series(call, span)],
            interval=query.interval,
            from_=span.start,
            to=span.stop,
            top_queues=[to_top_queue(queue, tally) for queue, tally in top],
        )
    )


async def system_metrics(call: Call) -> Reply:
    """What this server takes of its machine: now, if that is in the time asked for."""
    span, moment, door = window(call), now(call), call.door
    points = []
    if span.start <= moment <= span.stop:
        points = [SystemPoint(timestamp=moment, usage=usage_now())]
    replica = Replica(
        hostname=door.hostname, port=None, worker_id=door.worker_id, time_series=points
    )
    return Reply(
        SystemMetrics(
            time_range=span.time_range,
            replicas=[replica],
            replica_count=1,
            bucket_minutes=span.minutes,
            point_count=len(points),
        )
    )


async def worker_metrics(call: Call) -> Reply:
    """What this server did."""
    span = window(call)
    buckets = await _series(call, span)
    tallies = call.broker.insight.metrics.by_queue(await counted(call), span.start_at, span.stop_at)
    whole = Tally()
    for bucket in buckets:
        whole.add(bucket.tally)
    return Reply(
        WorkerMetrics(
            time_range=span.time_range,
            bucket_minutes=span.minutes,
            point_count=len(buckets),
            time_series=[to_point(bucket, span.minutes) for bucket in buckets],
            workers=workers(call),
            queues=[to_queue_tally(queue, tally) for queue, tally in sorted(tallies.items())],
            summary=to_summary(whole),
        )
    )


async def postgres_stats(call: Call) -> Reply:
    """What PostgreSQL says of itself: nothing, because there is none."""
    return Reply(PostgresStats())


async def queue_ops(call: Call) -> Reply:
    """What happened to each queue."""
    span = window(call)
    series = await _series_by_queue(call, span)
    return Reply(
        QueueOps(
            time_range=span.time_range,
            bucket_minutes=span.minutes,
            series=[to_queue_bucket(queue, bucket) for queue, bucket in series],
            queues=sorted({queue for queue, _ in series}),
        )
    )


async def queue_lag(call: Call) -> Reply:
    """How old messages were when they were delivered, and what waits now."""
    span, moment = window(call), now(call)
    names = {config.name for config in await queues(call)}
    lags = await call.broker.insight.groups.groups(lambda name: name in names)
    return Reply(
        QueueLag(
            time_range=span.time_range,
            bucket_minutes=span.minutes,
            series=[
                to_lag_bucket(queue, bucket)
                for queue, bucket in await _series_by_queue(call, span)
                if bucket.tally.lags
            ],
            queues=[
                GroupBehind(
                    queue=lag.queue,
                    consumer_group=lag.group,
                    pending=lag.backlog,
                    lag_seconds=seconds_since(lag.oldest_at, moment),
                )
                for lag in lags
            ],
        )
    )


async def latencies(call: Call) -> Reply:
    """How long messages took from their push to their ack."""
    query: LatenciesQuery = call.query
    span = window(call)
    found, then = await call.broker.insight.latencies.between(
        await counted(call), span.start_at, span.stop_at, limit=query.limit
    )
    return Reply(
        LatenciesResponse(
            time_range=span.time_range,
            series=[to_latency(each) for each in found],
            next=None if then is None else to_datetime(then),
        )
    )


async def parked(call: Call) -> Reply:
    """Long polls that wait at this server."""
    found = call.broker.insight.queues.parked(call.principal.sees)
    return Reply(
        Parked(
            timestamp=now(call),
            total=sum(found.values()),
            replicas=[
                ParkedRow(
                    queue=queue,
                    consumer_group=group,
                    worker_id=call.door.worker_id,
                    parked=count,
                )
                for (queue, group), count in sorted(found.items())
            ],
        )
    )


async def retention(call: Call) -> Reply:
    """What left the queues, and by which rule."""
    span = window(call)
    removals = await call.broker.insight.queues.removals(
        await queues(call), span.start_at, span.stop_at
    )
    series, totals = to_retention(removals, span.minutes)
    return Reply(
        Retention(
            time_range=span.time_range, bucket_minutes=span.minutes, series=series, totals=totals
        )
    )


async def _series(call: Call, span: Window) -> list[Bucket]:
    return call.broker.insight.metrics.series(
        await counted(call), span.start_at, span.stop_at, minutes=span.minutes
    )


async def _series_by_queue(call: Call, span: Window) -> list[tuple[str, Bucket]]:
    """Buckets with their queues, the oldest first."""
    series = call.broker.insight.metrics.series_by_queue(
        await counted(call), span.start_at, span.stop_at, minutes=span.minutes
    )
    pairs = [(queue, bucket) for queue, buckets in series.items() for bucket in buckets]
    return sorted(pairs, key=lambda pair: (pair[1].start, pair[0]))


ROUTES = (
    get(
        path="/api/v1/status/analytics",
        handler=analytics,
        needs=Permission.STATUS,
        queues=asked_queue,
        about="What was pushed and processed, by the minute, hour or day.",
        query=AnalyticsQuery,
        answer=Analytics,
    ),
    get(
        path="/api/v1/analytics/system-metrics",
        handler=system_metrics,
        needs=Permission.STATUS,
        queues=asked_queue,
        about="What this server takes of its machine.",
        query=WindowQuery,
        answer=SystemMetrics,
    ),
    get(
        path="/api/v1/analytics/worker-metrics",
        handler=worker_metrics,
        needs=Permission.STATUS,
        queues=asked_queue,
        about="What this server did.",
        query=WindowQuery,
        answer=WorkerMetrics,
    ),
    get(
        path="/api/v1/analytics/postgres-stats",
        handler=postgres_stats,
        needs=Permission.STATUS,
        queues=no_queue,
        about="What PostgreSQL says of itself; empty where there is none.",
        answer=PostgresStats,
    ),
    get(
        path="/api/v1/analytics/queue-ops",
        handler=queue_ops,
        needs=Permission.STATUS,
        queues=asked_queue,
        about="What happened to each queue.",
        query=WindowQuery,
        answer=QueueOps,
    ),
    get(
        path="/api/v1/analytics/queue-lag",
        handler=queue_lag,
        needs=Permission.STATUS,
        queues=asked_queue,
        about="How old messages were when they were delivered, and what waits now.",
        query=WindowQuery,
        answer=QueueLag,
    ),
    get(
        path="/api/v1/analytics/latencies",
        handler=latencies,
        needs=Permission.STATUS,
        queues=asked_queue,
        about="How long messages took from their push to their ack, by minute, queue and group.",
        query=LatenciesQuery,
        answer=LatenciesResponse,
    ),
    get(
        path="/api/v1/analytics/queue-parked-replicas",
        handler=parked,
        needs=Permission.STATUS,
        queues=no_queue,
        about="Long polls that wait at this server.",
        answer=Parked,
    ),
    get(
        path="/api/v1/analytics/retention",
        handler=retention,
        needs=Permission.STATUS,
        queues=asked_queue,
        about="What left the queues, and by which rule.",
        query=WindowQuery,
        answer=Retention,
    ),
)
