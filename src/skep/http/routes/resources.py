"""Statistics of queues, partitions and labels."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from skep.core.aio import yielding
from skep.http.auth.principal import Permission
from skep.http.request import HttpRequest, HttpResponse
from skep.http.routes.lookup import queue_in_query, queues_in_query
from skep.http.routing import get, named_queue, no_queue
from skep.model.name import to_datetime
from skep.model.queue import Queue
from skep.model.stats import Counts, GroupLag, QueueSummary
from skep.wire import paths
from skep.wire.stats.counts import PartitionsPage, to_counts
from skep.wire.stats.resource import (
    DepthQuery,
    DepthResponse,
    LagSpread,
    NamespaceRow,
    NamespacesResponse,
    PartitionDepth,
    PartitionRow,
    PartitionsQuery,
    PartitionsResponse,
    QueueDetail,
    QueuesQuery,
    QueuesResponse,
    ResourceOverview,
    TaskRow,
    TasksResponse,
    Throughput,
    to_detail,
    to_partition_detail,
    to_partition_row,
    to_row,
    to_spread,
)

SECOND = timedelta(seconds=1)


async def overview(request: HttpRequest) -> HttpResponse:
    """Totals over all queues that the caller may see."""
    insight, sees = request.broker.insight, request.principal.sees
    queues = await insight.queues.queues(await insight.queues.find(sees))
    groups = await insight.groups.groups(sees)
    return HttpResponse(
        ResourceOverview(
            queues=len(queues),
            partitions=sum(each.partitions for each in queues),
            namespaces=len({each.queue.namespace for each in queues} - {None}),
            tasks=len({each.queue.task for each in queues} - {None}),
            messages=to_counts(sum((each.counts for each in queues), Counts())),
            lag=_lag_spread(request, groups),
            throughput=throughput(request),
            timestamp=to_datetime(insight.clock.now()),
        )
    )


def throughput(request: HttpRequest) -> Throughput:
    """Messages per second in this minute and the one before."""
    tally, seconds = request.broker.insight.metrics.lately(request.principal.sees)
    return Throughput(
        ingested_per_second=tally.pushed / seconds, processed_per_second=tally.acked / seconds
    )


def _lag_spread(request: HttpRequest, groups: Iterable[GroupLag]) -> LagSpread:
    now = to_datetime(request.broker.insight.clock.now())
    groups = list(groups)
    ages = [max(0.0, (now - lag.oldest_at) / SECOND) if lag.oldest_at else 0.0 for lag in groups]
    return LagSpread(time=to_spread(ages), offset=to_spread([lag.backlog for lag in groups]))


async def queues(request: HttpRequest) -> HttpResponse:
    """The queues that the caller may see, by name."""
    query: QueuesQuery = request.query
    visible = await request.broker.insight.queues.find(
        request.principal.sees, namespace=query.namespace, task=query.task
    )
    page = visible[query.offset : query.offset + query.limit]
    rows = [to_row(each) for each in await request.broker.insight.queues.queues(page)]
    return HttpResponse(QueuesResponse(queues=rows, total=len(visible)))


async def queue(request: HttpRequest) -> HttpResponse:
    """One queue with its partitions."""
    name, query = request.params["queue"], request.query
    summary = await request.broker.insight.queues.queue(name)
    partitions = await request.broker.insight.queues.partitions(
        name, offset=query.offset, limit=query.limit
    )
    stats = await request.broker.queues.stats(name)
    rows = [to_partition_detail(each) async for each in yielding(partitions)]
    return HttpResponse(to_detail(summary, stats, rows))


async def namespaces(request: HttpRequest) -> HttpResponse:
    """The namespaces of the queues that the caller may see."""
    by_label = await _by_label(request, lambda queue: queue.namespace)
    rows = [NamespaceRow(namespace=label, **_sums(summaries)) for label, summaries in by_label]
    return HttpResponse(NamespacesResponse(namespaces=rows))


async def tasks(request: HttpRequest) -> HttpResponse:
    """The tasks of the queues that the caller may see."""
    by_label = await _by_label(request, lambda queue: queue.task)
    return HttpResponse(
        TasksResponse(
            tasks=[TaskRow(task=label, **_sums(summaries)) for label, summaries in by_label]
        )
    )


async def _by_label(
    request: HttpRequest, label: Callable[[Queue], str | None]
) -> list[tuple[str | None, list[QueueSummary]]]:
    insight = request.broker.insight.queues
    groups: dict[str | None, list[QueueSummary]] = {}
    for summary in await insight.queues(await insight.find(request.principal.sees)):
        groups.setdefault(label(summary.queue), []).append(summary)
    return sorted(groups.items(), key=lambda pair: pair[0] or "")


def _sums(summaries: list[QueueSummary]) -> dict[str, Any]:
    return {
        "queues": len(summaries),
        "partitions": sum(each.partitions for each in summaries),
        "messages": to_counts(sum((each.counts for each in summaries), Counts())),
    }


async def partitions(request: HttpRequest) -> HttpResponse:
    """Partitions of one queue or of all, with at least ``minDepth`` pending messages."""
    query: PartitionsQuery = request.query
    insight = request.broker.insight.queues
    rows: list[PartitionRow] = []
    skip, left = query.offset, query.limit
    for config in await queues_in_query(request):
        matching = await insight.partitions(
            config.name, min_pending=query.min_depth, limit=skip + left
        )
        rows += [to_partition_row(config, each) async for each in yielding(matching[skip:])]
        skip, left = max(0, skip - len(matching)), query.limit - len(rows)
        if not left:
            break
    return HttpResponse(PartitionsResponse(partitions=rows))


async def depth(request: HttpRequest) -> HttpResponse:
    """The backlog of a group in a queue."""
    name, query = request.params["queue"], request.query
    backlog = await request.broker.insight.groups.backlog(name, query.group, limit=query.limit)
    return HttpResponse(
        DepthResponse(
            queue=name,
            group=query.group,
            pending=backlog.backlog,
            partitions_pending=backlog.partitions_with_backlog,
            effective_pending=backlog.backlog,
            partitions=[
                PartitionDepth(partition=partition, pending=pending)
                for partition, pending in backlog.partitions
            ],
        )
    )


ROUTES = (
    get(
        path=paths.OVERVIEW,
        handler=overview,
        needs=Permission.STATUS,
        queues=no_queue,
        summary="Totals over all queues.",
        response=ResourceOverview,
    ),
    get(
        path=paths.QUEUES,
        handler=queues,
        needs=Permission.STATUS,
        queues=no_queue,
        summary="List queues by name, with their message counts by status.",
        query=QueuesQuery,
        response=QueuesResponse,
    ),
    get(
        path=paths.QUEUE,
        handler=queue,
        needs=Permission.STATUS,
        queues=named_queue,
        summary="Return one queue with its options and partitions, oldest first.",
        query=PartitionsPage,
        response=QueueDetail,
    ),
    get(
        path=paths.QUEUE_DEPTH,
        handler=depth,
        needs=Permission.STATUS,
        queues=named_queue,
        summary="The backlog of a group in a queue.",
        query=DepthQuery,
        response=DepthResponse,
    ),
    get(
        path=paths.NAMESPACES,
        handler=namespaces,
        needs=Permission.STATUS,
        queues=no_queue,
        summary="List the namespaces of the queues.",
        response=NamespacesResponse,
    ),
    get(
        path=paths.TASKS,
        handler=tasks,
        needs=Permission.STATUS,
        queues=no_queue,
        summary="List the tasks of the queues.",
        response=TasksResponse,
    ),
    get(
        path=paths.PARTITIONS,
        handler=partitions,
        needs=Permission.STATUS,
        queues=queue_in_query,
        summary="List the partitions of one queue or of all.",
        query=PartitionsQuery,
        response=PartitionsResponse,
    ),
)
