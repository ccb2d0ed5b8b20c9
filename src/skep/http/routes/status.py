"""Current status and recent throughput."""

from skep.core.aio import yielding
from skep.core.insight.message_browser import MessageFilter
from skep.errors import PartitionNotFound, Unavailable
from skep.http.auth.principal import Permission
from skep.http.request import HttpRequest, HttpResponse
from skep.http.routes.lookup import queue_in_query
from skep.http.routes.time_window import now, queue_filter, queues, window, workers
from skep.http.routing import get, named_queue, no_queue, post
from skep.model.tally import Tally
from skep.wire import paths
from skep.wire.admin.group import seconds_since
from skep.wire.message.message import to_message
from skep.wire.pagination import Pagination, in_utc
from skep.wire.stats.counts import PartitionsPage
from skep.wire.stats.status import (
    Buffers,
    Refresh,
    Refreshed,
    StatusErrors,
    StatusResponse,
    to_leases,
    to_status_dead_letters,
    to_status_messages,
    to_status_queue,
)
from skep.wire.stats.status_queue import (
    QueueMessages,
    StatusMessagesQuery,
    StatusQueueDetail,
    StatusQueues,
    StatusQueuesQuery,
    to_status_detail,
    to_status_partition,
    to_status_row,
)
from skep.wire.stats.throughput import to_point
from skep.wire.stats.time_window import WindowQuery


async def status(request: HttpRequest) -> HttpResponse:
    """Some queues, or all that the caller may see, now and over a time range."""
    insight, span, visible = request.broker.insight, window(request), await queues(request)
    summaries = await insight.queues.queues(visible)
    buckets = insight.metrics.series(
        await queue_filter(request), span.start_at, span.stop_at, minutes=span.minutes
    )
    tally = Tally()
    for bucket in buckets:
        tally.add(bucket.tally)
    letters = to_status_dead_letters(
        sum(each.counts.dead_letters for each in summaries),
        await insight.queues.errors(visible),
        with_errors=request.may(Permission.READ),
    )
    return HttpResponse(
        StatusResponse(
            time_range=span.time_range,
            bucket_minutes=span.minutes,
            point_count=len(buckets),
            throughput=[to_point(bucket, span.minutes) for bucket in buckets],
            queues=[to_status_queue(each) for each in summaries],
            messages=to_status_messages(summaries, tally),
            leases=to_leases(await insight.queues.leases(visible)),
            dead_letter_queue=letters,
            workers=workers(request),
            errors=StatusErrors(ack_failed=tally.failed, dlq_count=tally.dead_letters),
        )
    )


async def status_queues(request: HttpRequest) -> HttpResponse:
    """The queues that the caller may see, with the age of their oldest waiting message."""
    query: StatusQueuesQuery = request.query
    visible = await request.broker.insight.queues.find(
        request.principal.sees, namespace=query.namespace, task=query.task
    )
    page = visible[query.offset : query.offset + query.limit]
    ages = await _ages(request, {config.name for config in page})
    rows = [
        to_status_row(each, ages.get(each.queue.name))
        for each in await request.broker.insight.queues.queues(page)
    ]
    paging = Pagination(limit=query.limit, offset=query.offset, total=len(visible))
    return HttpResponse(StatusQueues(queues=rows, pagination=paging))


async def _ages(request: HttpRequest, names: set[str]) -> dict[str, float]:
    """Seconds that the oldest message of each queue has waited for a group."""
    ages: dict[str, float] = {}
    for lag in await request.broker.insight.groups.groups(lambda name: name in names):
        if lag.oldest_at is not None:
            age = seconds_since(lag.oldest_at, now(request))
            ages[lag.queue] = max(age, ages.get(lag.queue, 0.0))
    return ages


async def status_queue(request: HttpRequest) -> HttpResponse:
    """One queue with its partitions."""
    name, query = request.params["queue"], request.query
    summary = await request.broker.insight.queues.queue(name)
    partitions = await request.broker.insight.queues.partitions(
        name, offset=query.offset, limit=query.limit
    )
    rows = [to_status_partition(each) async for each in yielding(partitions)]
    return HttpResponse(to_status_detail(summary, rows))


async def status_messages(request: HttpRequest) -> HttpResponse:
    """Messages of one queue with their status, newest first."""
    name, query = request.params["queue"], request.query
    config = await request.broker.queues.get(name)
    if query.partition is not None and not await request.broker.queues.has(name, query.partition):
        raise PartitionNotFound(name, query.partition)
    page = await request.broker.insight.messages.page(
        [config],
        MessageFilter(
            partition=query.partition,
            status=query.status,
            from_=in_utc(query.from_),
            to=in_utc(query.to),
        ),
        payloads=request.may(Permission.READ),
        before=query.before,
        offset=query.offset,
        limit=query.limit,
    )
    return HttpResponse(
        QueueMessages(
            messages=[to_message(view) for view in page.messages],
            pagination=Pagination(limit=query.limit, offset=query.offset),
            queue=name,
            next=page.next,
        )
    )


async def buffers(request: HttpRequest) -> HttpResponse:
    """Buffered pushes, and whether the store accepts writes."""
    await request.broker.catch_up()
    aside = request.broker.maintenance.buffered
    try:
        await request.broker.insight.health.check()
    except Unavailable:
        return HttpResponse(Buffers(pending_count=aside, db_healthy=False))
    return HttpResponse(Buffers(pending_count=aside, db_healthy=True))


async def refresh(request: HttpRequest) -> HttpResponse:
    """Return the current counts: there is nothing to refresh."""
    visible = await request.broker.insight.queues.find(request.principal.sees)
    summaries = await request.broker.insight.queues.queues(visible)
    labels = {config.namespace for config in visible}, {config.task for config in visible}
    namespaces, tasks = (len(some - {None}) for some in labels)
    return HttpResponse(
        Refresh(
            partition=Refreshed(count=sum(each.partitions for each in summaries)),
            queue=Refreshed(count=len(summaries)),
            namespace=Refreshed(count=namespaces),
            task=Refreshed(count=tasks),
            system=Refreshed(count=1),
            cleanup=Refreshed(count=0),
        )
    )


ROUTES = (
    get(
        path=paths.STATUS,
        handler=status,
        needs=Permission.STATUS,
        queues=queue_in_query,
        summary="Current queue status and throughput over a time range.",
        query=WindowQuery,
        response=StatusResponse,
    ),
    get(
        path=paths.STATUS_QUEUES,
        handler=status_queues,
        needs=Permission.STATUS,
        queues=no_queue,
        summary="List queues with the age of their oldest waiting message.",
        query=StatusQueuesQuery,
        response=StatusQueues,
    ),
    get(
        path=paths.STATUS_QUEUE,
        handler=status_queue,
        needs=Permission.STATUS,
        queues=named_queue,
        summary="Return one queue with its partitions and their consumption.",
        query=PartitionsPage,
        response=StatusQueueDetail,
    ),
    get(
        path=paths.STATUS_MESSAGES,
        handler=status_messages,
        needs=Permission.STATUS,
        queues=named_queue,
        summary="List messages of one queue, newest first; payloads need the permission read.",
        query=StatusMessagesQuery,
        response=QueueMessages,
    ),
    get(
        path=paths.STATUS_BUFFERS,
        handler=buffers,
        needs=Permission.STATUS,
        queues=no_queue,
        summary="Pushes buffered during maintenance, and whether the store accepts writes.",
        response=Buffers,
    ),
    post(
        path=paths.REFRESH,
        handler=refresh,
        needs=Permission.ADMIN,
        queues=no_queue,
        summary="Recompute statistics (kept for Queen clients; statistics are always current).",
        response=Refresh,
    ),
)
