"""Queues, partitions and labels in numbers."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from skep.core.aio import yielding
from skep.http.auth.principal import Permission
from skep.http.request import Call, Reply
from skep.http.routes.lookup import asked_queue, asked_queues
from skep.http.routing import get, named_queue, no_queue
from skep.model.name import to_datetime
from skep.model.queue import Queue
from skep.model.stats import Counts, GroupLag, QueueSummary
from skep.wire.stats.counts import PartitionsPage, to_counts
from skep.wire.stats.resource import (
    DepthAnswer,
    DepthQuery,
    LagSpread,
    NamespaceRow,
    NamespaceRows,
    PartitionDepth,
    PartitionRow,
    PartitionRows,
    PartitionsQuery,
    QueueDetail,
    QueueRows,
    QueuesQuery,
    ResourceOverview,
    TaskRow,
    TaskRows,
    Throughput,
    to_detail,
    to_partition_detail,
    to_partition_row,
    to_row,
    to_spread,
)

SECOND = timedelta(seconds=1)


async def overview(call: Call) -> Reply:
    """Everything that the caller sees, in a few numbers."""
    insight, sees = call.broker.insight, call.principal.sees
    queues = await insight.queues.queues(await insight.queues.find(sees))
    groups = await insight.groups.groups(sees)
    return Reply(
        ResourceOverview(
            queues=len(queues),
            partitions=sum(each.partitions for each in queues),
            namespaces=len({each.queue.namespace for each in queues} - {None}),
            tasks=len({each.queue.task for each in queues} - {None}),
            messages=to_counts(sum((each.counts for each in queues), Counts())),
            lag=_lag_spread(call, groups),
            throughput=throughput(call),
            timestamp=to_datetime(insight.clock.now()),
        )
    )


def throughput(call: Call) -> Throughput:
    """Messages per second in this minute and the one before."""
    tally, seconds = call.broker.insight.metrics.lately(call.principal.sees)
    return Throughput(
        ingested_per_second=tally.pushed / seconds, processed_per_second=tally.acked / seconds
    )


def _lag_spread(call: Call, groups: Iterable[GroupLag]) -> LagSpread:
    now = to_datetime(call.broker.insight.clock.now())
    groups = list(groups)
    ages = [max(0.0, (now - lag.oldest_at) / SECOND) if lag.oldest_at else 0.0 for lag in groups]
    return LagSpread(time=to_spread(ages), offset=to_spread([lag.backlog for lag in groups]))


async def queues(call: Call) -> Reply:
    """The queues that the caller sees, by name."""
    query: QueuesQuery = call.query
    found = await call.broker.insight.queues.find(
        call.principal.sees, namespace=query.namespace, task=query.task
    )
    some = found[query.offset : query.offset + query.limit]
    rows = [to_row(each) for each in await call.broker.insight.queues.queues(some)]
    return Reply(QueueRows(queues=rows, total=len(found)))


async def queue(call: Call) -> Reply:
    """One queue with its partitions."""
    name, query = call.params["queue"], call.query
    summary = await call.broker.insight.queues.queue(name)
    partitions = await call.broker.insight.queues.partitions(
        name, offset=query.offset, limit=query.limit
    )
    stats = await call.broker.queues.stats(name)
    rows = [to_partition_detail(each) async for each in yielding(partitions)]
    return Reply(to_detail(summary, stats, rows))


async def namespaces(call: Call) -> Reply:
    """The namespaces of the queues that the caller sees."""
    by_label = await _by_label(call, lambda queue: queue.namespace)
    rows = [NamespaceRow(namespace=label, **_sums(some)) for label, some in by_label]
    return Reply(NamespaceRows(namespaces=rows))


async def tasks(call: Call) -> Reply:
    """The tasks of the queues that the caller sees."""
    by_label = await _by_label(call, lambda queue: queue.task)
    return Reply(TaskRows(tasks=[TaskRow(task=label, **_sums(some)) for label, some in by_label]))


async def _by_label(
    call: Call, label: Callable[[Queue], str | None]
) -> list[tuple[str | None, list[QueueSummary]]]:
    insight = call.broker.insight.queues
    groups: dict[str | None, list[QueueSummary]] = {}
    for summary in await insight.queues(await insight.find(call.principal.sees)):
        groups.setdefault(label(summary.queue), []).append(summary)
    return sorted(groups.items(), key=lambda pair: pair[0] or "")


def _sums(summaries: list[QueueSummary]) -> dict[str, Any]:
    return {
        "queues": len(summaries),
        "partitions": sum(each.partitions for each in summaries),
        "messages": to_counts(sum((each.counts for each in summaries), Counts())),
    }


async def partitions(call: Call) -> Reply:
    """Partitions of one queue or of all, with at least so much pending."""
    query: PartitionsQuery = call.query
    insight = call.broker.insight.queues
    rows: list[PartitionRow] = []
    skip, left = query.offset, query.limit
    for config in await asked_queues(call):
        some = await insight.partitions(config.name, min_pending=query.min_depth, limit=skip + left)
        rows += [to_partition_row(config, each) async for each in yielding(some[skip:])]
        skip, left = max(0, skip - len(some)), query.limit - len(rows)
        if not left:
            break
    return Reply(PartitionRows(partitions=rows))


async def depth(call: Call) -> Reply:
    """What a group still has to read of a queue."""
    name, query = call.params["queue"], call.query
    found = await call.broker.insight.groups.backlog(name, query.group, limit=query.limit)
    return Reply(
        DepthAnswer(
            queue=name,
            group=query.group,
            pending=found.backlog,
            partitions_pending=found.partitions_with_backlog,
            effective_pending=found.backlog,
            partitions=[
                PartitionDepth(partition=partition, pending=backlog)
                for partition, backlog in found.partitions
            ],
        )
    )


ROUTES = (
    get(
        path="/api/v1/resources/overview",
        handler=overview,
        needs=Permission.STATUS,
        queues=no_queue,
        about="Everything in a few numbers.",
        answer=ResourceOverview,
    ),
    get(
        path="/api/v1/resources/queues",
        handler=queues,
        needs=Permission.STATUS,
        queues=no_queue,
        about="The queues, by name, with what became of their messages.",
        query=QueuesQuery,
        answer=QueueRows,
    ),
    get(
        path="/api/v1/resources/queues/{queue}",
        handler=queue,
        needs=Permission.STATUS,
        queues=named_queue,
        about="One queue with its options and its partitions, the oldest first.",
        query=PartitionsPage,
        answer=QueueDetail,
    ),
    get(
        path="/api/v1/resources/queues/{queue}/depth",
        handler=depth,
        needs=Permission.STATUS,
        queues=named_queue,
        about="What a group still has to read of a queue.",
        query=DepthQuery,
        answer=DepthAnswer,
    ),
    get(
        path="/api/v1/resources/namespaces",
        handler=namespaces,
        needs=Permission.STATUS,
        queues=no_queue,
        about="The namespaces of the queues.",
        answer=NamespaceRows,
    ),
    get(
        path="/api/v1/resources/tasks",
        handler=tasks,
        needs=Permission.STATUS,
        queues=no_queue,
        about="The tasks of the queues.",
        answer=TaskRows,
    ),
    get(
        path="/api/v1/resources/partitions",
        handler=partitions,
        needs=Permission.STATUS,
        queues=asked_queue,
        about="Partitions of one queue or of all.",
        query=PartitionsQuery,
        answer=PartitionRows,
    ),
)
