"""Statistics over time."""

from skep.http.auth.principal import Permission
from skep.http.process.usage import usage_now
from skep.http.request import HttpRequest, HttpResponse
from skep.http.routes.lookup import queue_in_query
from skep.http.routes.time_window import now, queue_filter, queues, window, workers
from skep.http.routing import get, no_queue
from skep.model.name import to_datetime
from skep.model.tally import Bucket, Tally
from skep.wire import paths
from skep.wire.admin.group import seconds_since
from skep.wire.admin.retention import Retention, to_retention
from skep.wire.stats.analytics import (
    INTERVALS,
    Analytics,
    AnalyticsQuery,
    GroupPending,
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


async def analytics(request: HttpRequest) -> HttpResponse:
    """Pushed and processed messages per minute, hour or day."""
    query: AnalyticsQuery = request.query
    span = window(request, minutes=INTERVALS[query.interval])
    tallies = request.broker.insight.metrics.by_queue(
        await queue_filter(request), span.start_at, span.stop_at
    )
    top = sorted(tallies.items(), key=lambda pair: (-pair[1].pushed, pair[0]))[:TOP]
    return HttpResponse(
        Analytics(
            data_points=[to_data_point(bucket) for bucket in await _series(request, span)],
            interval=query.interval,
            from_=span.start,
            to=span.stop,
            top_queues=[to_top_queue(queue, tally) for queue, tally in top],
        )
    )


async def system_metrics(request: HttpRequest) -> HttpResponse:
    """CPU time and memory of this server: one point, if the time range includes now."""
    span, moment, server_info = window(request), now(request), request.server_info
    points = []
    if span.start <= moment <= span.stop:
        points = [SystemPoint(timestamp=moment, usage=usage_now())]
    replica = Replica(
        hostname=server_info.hostname,
        port=None,
        worker_id=server_info.worker_id,
        time_series=points,
    )
    return HttpResponse(
        SystemMetrics(
            time_range=span.time_range,
            replicas=[replica],
            replica_count=1,
            bucket_minutes=span.minutes,
            point_count=len(points),
        )
    )


async def worker_metrics(request: HttpRequest) -> HttpResponse:
    """Operations of this server."""
    span = window(request)
    buckets = await _series(request, span)
    tallies = request.broker.insight.metrics.by_queue(
        await queue_filter(request), span.start_at, span.stop_at
    )
    whole = Tally()
    for bucket in buckets:
        whole.add(bucket.tally)
    return HttpResponse(
        WorkerMetrics(
            time_range=span.time_range,
            bucket_minutes=span.minutes,
            point_count=len(buckets),
            time_series=[to_point(bucket, span.minutes) for bucket in buckets],
            workers=workers(request),
            queues=[to_queue_tally(queue, tally) for queue, tally in sorted(tallies.items())],
            summary=to_summary(whole),
        )
    )


async def postgres_stats(request: HttpRequest) -> HttpResponse:
    """Queen's shape, marked as not collected: the database's own views have these numbers."""
    return HttpResponse(PostgresStats())


async def queue_ops(request: HttpRequest) -> HttpResponse:
    """Operations by queue."""
    span = window(request)
    series = await _series_by_queue(request, span)
    return HttpResponse(
        QueueOps(
            time_range=span.time_range,
            bucket_minutes=span.minutes,
            series=[to_queue_bucket(queue, bucket) for queue, bucket in series],
            queues=sorted({queue for queue, _ in series}),
        )
    )


async def queue_lag(request: HttpRequest) -> HttpResponse:
    """Age of messages at delivery, and the current backlog."""
    span, moment = window(request), now(request)
    names = {config.name for config in await queues(request)}
    lags = await request.broker.insight.groups.groups(lambda name: name in names)
    return HttpResponse(
        QueueLag(
            time_range=span.time_range,
            bucket_minutes=span.minutes,
            series=[
                to_lag_bucket(queue, bucket)
                for queue, bucket in await _series_by_queue(request, span)
                if bucket.tally.lags
            ],
            queues=[
                GroupPending(
                    queue=lag.queue,
                    consumer_group=lag.group,
                    pending=lag.backlog,
                    lag_seconds=seconds_since(lag.oldest_at, moment),
                )
                for lag in lags
            ],
        )
    )


async def latencies(request: HttpRequest) -> HttpResponse:
    """Latency from push to ack."""
    query: LatenciesQuery = request.query
    span = window(request)
    latencies, next_at = await request.broker.insight.latencies.between(
        await queue_filter(request), span.start_at, span.stop_at, limit=query.limit
    )
    return HttpResponse(
        LatenciesResponse(
            time_range=span.time_range,
            series=[to_latency(each) for each in latencies],
            next=None if next_at is None else to_datetime(next_at),
        )
    )


async def parked(request: HttpRequest) -> HttpResponse:
    """Long polls parked at this server."""
    parked_polls = request.broker.insight.queues.parked(request.principal.sees)
    return HttpResponse(
        Parked(
            timestamp=now(request),
            total=sum(parked_polls.values()),
            replicas=[
                ParkedRow(
                    queue=queue,
                    consumer_group=group,
                    worker_id=request.server_info.worker_id,
                    parked=count,
                )
                for (queue, group), count in sorted(parked_polls.items())
            ],
        )
    )


async def retention(request: HttpRequest) -> HttpResponse:
    """Messages removed from queues, by rule."""
    span = window(request)
    removals = await request.broker.insight.queues.removals(
        await queues(request), span.start_at, span.stop_at
    )
    series, totals = to_retention(removals, span.minutes)
    return HttpResponse(
        Retention(
            time_range=span.time_range, bucket_minutes=span.minutes, series=series, totals=totals
        )
    )


async def _series(request: HttpRequest, span: Window) -> list[Bucket]:
    return request.broker.insight.metrics.series(
        await queue_filter(request), span.start_at, span.stop_at, minutes=span.minutes
    )


async def _series_by_queue(request: HttpRequest, span: Window) -> list[tuple[str, Bucket]]:
    """Buckets with their queues, the oldest first."""
    series = request.broker.insight.metrics.series_by_queue(
        await queue_filter(request), span.start_at, span.stop_at, minutes=span.minutes
    )
    pairs = [(queue, bucket) for queue, buckets in series.items() for bucket in buckets]
    return sorted(pairs, key=lambda pair: (pair[1].start, pair[0]))


ROUTES = (
    get(
        path=paths.STATUS_ANALYTICS,
        handler=analytics,
        needs=Permission.STATUS,
        queues=queue_in_query,
        summary="Pushed and processed messages per minute, hour or day.",
        query=AnalyticsQuery,
        response=Analytics,
    ),
    get(
        path=paths.SYSTEM_METRICS,
        handler=system_metrics,
        needs=Permission.STATUS,
        queues=queue_in_query,
        summary="CPU time and memory of this server.",
        query=WindowQuery,
        response=SystemMetrics,
    ),
    get(
        path=paths.WORKER_METRICS,
        handler=worker_metrics,
        needs=Permission.STATUS,
        queues=queue_in_query,
        summary="Operations of this server over a time range.",
        query=WindowQuery,
        response=WorkerMetrics,
    ),
    get(
        path=paths.POSTGRES_STATS,
        handler=postgres_stats,
        needs=Permission.STATUS,
        queues=no_queue,
        summary="PostgreSQL statistics in Queen's format; this server does not collect any.",
        response=PostgresStats,
    ),
    get(
        path=paths.QUEUE_OPERATIONS,
        handler=queue_ops,
        needs=Permission.STATUS,
        queues=queue_in_query,
        summary="Operations by queue over a time range.",
        query=WindowQuery,
        response=QueueOps,
    ),
    get(
        path=paths.QUEUE_LAG,
        handler=queue_lag,
        needs=Permission.STATUS,
        queues=queue_in_query,
        summary="Age of messages at delivery over a time range, and the current backlog.",
        query=WindowQuery,
        response=QueueLag,
    ),
    get(
        path=paths.LATENCIES,
        handler=latencies,
        needs=Permission.STATUS,
        queues=queue_in_query,
        summary="Latency from push to ack by minute, queue and group.",
        query=LatenciesQuery,
        response=LatenciesResponse,
    ),
    get(
        path=paths.PARKED,
        handler=parked,
        needs=Permission.STATUS,
        queues=no_queue,
        summary="Long polls parked at this server.",
        response=Parked,
    ),
    get(
        path=paths.RETENTION,
        handler=retention,
        needs=Permission.STATUS,
        queues=queue_in_query,
        summary="Messages removed from queues over a time range, by rule.",
        query=WindowQuery,
        response=Retention,
    ),
)
