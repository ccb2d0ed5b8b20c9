"""Consumer groups: lag, seek, delete."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from skep.core.aio import yielding
from skep.core.journal.reader_group import Reader
from skep.errors import Conflict
from skep.http.auth.principal import Permission
from skep.http.request import HttpRequest, HttpResponse
from skep.http.routing import delete, get, named_queue, no_queue, post
from skep.model.name import to_datetime
from skep.wire import paths
from skep.wire.admin.group import (
    DeletedGroup,
    DeleteGroupQuery,
    GroupQuery,
    GroupQueue,
    GroupRow,
    LaggingQuery,
    LaggingRow,
    Resubscribed,
    SeekBody,
    Sought,
    SoughtPartition,
    SubscriptionBody,
    to_group_lane,
    to_group_partition,
    to_group_row,
    to_lagging_row,
    to_target,
)
from skep.wire.pagination import in_utc


async def groups(request: HttpRequest) -> HttpResponse:
    """Every group of every queue that the caller may see."""
    lags = await request.broker.insight.groups.groups(request.principal.sees)
    now = _now(request)
    return HttpResponse([to_group_row(lag, now) for lag in lags])


async def group(request: HttpRequest) -> HttpResponse:
    """One group in each of its queues, by partition or lane."""
    name, query = request.params["group"], request.query
    lags, now = request.broker.insight.groups, _now(request)
    return HttpResponse(
        {
            queue: GroupQueue(
                partitions=[
                    to_group_partition(lag, now)
                    async for lag in yielding(
                        await lags.partitions(queue, name, offset=query.offset, limit=query.limit)
                    )
                ],
                lanes=tuple(to_group_lane(lag, now) for lag in await lags.lanes(queue, name)),
            )
            for queue in await lags.find_all(name, request.principal.sees)
        }
    )


async def lagging(request: HttpRequest) -> HttpResponse:
    """Partitions whose oldest message waits longer than a time, oldest first."""
    query: LaggingQuery = request.query
    partitions = await request.broker.insight.groups.lagging(
        request.principal.sees, seconds=query.min_lag_seconds, limit=query.limit
    )
    now = _now(request)
    return HttpResponse(
        [
            to_lagging_row(each.queue, each.group, each.lag, now)
            async for each in yielding(partitions)
        ]
    )


async def delete_group(request: HttpRequest) -> HttpResponse:
    """Delete a group in every queue that the caller may see."""
    name = request.params["group"]
    queues = await request.broker.insight.groups.of(name, request.principal.sees)
    return HttpResponse(await _delete(request, name, queues, None, await _reader(request, name)))


async def delete_group_in_queue(request: HttpRequest) -> HttpResponse:
    """Delete a group in one queue."""
    name, queue = request.params["group"], request.params["queue"]
    await request.broker.queues.get(queue)
    queues = await request.broker.insight.groups.of(name, lambda each: each == queue)
    reader = await _reader(request, name)
    if reader is not None and queue not in reader.position.queues:
        reader = None
    return HttpResponse(await _delete(request, name, queues, queue, reader))


async def _reader(request: HttpRequest, name: str) -> Reader | None:
    """A reader group, if the caller may see all of its queues."""
    reader = await request.broker.reader_groups.find(name)
    return reader if reader and all(map(request.principal.sees, reader.position.queues)) else None


async def _delete(
    request: HttpRequest, name: str, queues: Sequence[str], queue: str | None, reader: Reader | None
) -> DeletedGroup:
    """Delete a group; not an error if there is none."""
    partitions = 0
    if reader is not None:
        if not request.query.delete_metadata:
            raise Conflict(f"{name!r} is a reader group: its start position is in its checkpoint")
        await request.broker.reader_groups.forget(name)
    for each in queues:
        if request.query.delete_metadata:
            partitions += (await request.broker.insight.groups.group(each, name)).partitions
            await request.broker.groups.delete(each, name)
        else:
            partitions += await request.broker.groups.restart(each, name)
    return DeletedGroup(
        consumer_group=name,
        queue_name=queue,
        deleted_partitions=partitions,
        metadata_deleted=request.query.delete_metadata and bool(queues or reader),
    )


async def resubscribe(request: HttpRequest) -> HttpResponse:
    """Change where a group starts, in partitions that it has not read yet."""
    name, start = request.params["group"], in_utc(request.body.subscription_timestamp)
    queues = await _subscribed(request, name)
    moved = [await request.broker.groups.resubscribe(queue, name, start) for queue in queues]
    return HttpResponse(
        Resubscribed(
            consumer_group=name,
            new_timestamp=start,
            rows_updated=len(queues),
            partitions_updated=sum(moved),
        )
    )


async def _subscribed(request: HttpRequest, name: str) -> Sequence[str]:
    """The queue in the body, or all visible queues that the group has popped from."""
    queue = request.body.queue_name
    if queue is None:
        return await request.broker.insight.groups.find(name, request.principal.sees)
    return ((await request.broker.queues.get(queue)).name,)


def _queue_in_body(request: HttpRequest) -> Iterable[str]:
    return () if request.body.queue_name is None else (request.body.queue_name,)


async def seek(request: HttpRequest) -> HttpResponse:
    """Move a group in all partitions of a queue; its leases end."""
    body: SeekBody = request.body
    updated = await _seek(request, None)
    return HttpResponse(
        Sought(
            consumer_group=request.params["group"],
            queue_name=request.params["queue"],
            seek_to_end=body.to_end,
            seek_to_beginning=body.to_beginning,
            target_timestamp=in_utc(body.timestamp),
            target_offset=body.offset,
            partitions_updated=updated,
        )
    )


async def seek_partition(request: HttpRequest) -> HttpResponse:
    """Move a group in one partition of a queue; its lease there ends."""
    body: SeekBody = request.body
    queue, name, partition = (request.params[key] for key in ("queue", "group", "partition"))
    updated = await _seek(request, partition)
    (lag,) = await request.broker.groups.lag(queue, name, partition=partition)
    return HttpResponse(
        SoughtPartition(
            consumer_group=name,
            queue_name=queue,
            partition_name=partition,
            seek_to_end=body.to_end,
            seek_to_beginning=body.to_beginning,
            target_timestamp=in_utc(body.timestamp),
            target_offset=body.offset,
            updated=bool(updated),
            cursor_moved_to=lag.cursor,
        )
    )


async def _seek(request: HttpRequest, partition: str | None) -> int:
    field, target = to_target(request.body)
    request.origins = lambda: {("to",): (field,)}
    return await request.broker.groups.seek(
        request.params["queue"], request.params["group"], target, partition=partition
    )


def _now(request: HttpRequest) -> datetime:
    return to_datetime(request.broker.insight.clock.now())


ROUTES = (
    get(
        path=paths.GROUPS,
        handler=groups,
        needs=Permission.STATUS,
        queues=no_queue,
        summary="List every group of every queue with its lag.",
        response=list[GroupRow],
    ),
    get(
        path=paths.LAGGING_GROUPS,
        handler=lagging,
        needs=Permission.STATUS,
        queues=no_queue,
        summary="List partitions whose oldest message has waited longer than `minLagSeconds`.",
        query=LaggingQuery,
        response=list[LaggingRow],
    ),
    get(
        path=paths.GROUP,
        handler=group,
        needs=Permission.STATUS,
        queues=no_queue,
        summary="Return one group in each partition or lane of its queues.",
        query=GroupQuery,
        response=dict[str, GroupQueue],
    ),
    delete(
        path=paths.GROUP,
        handler=delete_group,
        needs=Permission.ADMIN,
        queues=no_queue,
        summary="Delete a group in every queue: its next pop is a new subscription.",
        query=DeleteGroupQuery,
        response=DeletedGroup,
    ),
    delete(
        path=paths.GROUP_IN_QUEUE,
        handler=delete_group_in_queue,
        needs=Permission.ADMIN,
        queues=named_queue,
        summary="Delete a group in one queue.",
        query=DeleteGroupQuery,
        response=DeletedGroup,
    ),
    post(
        path=paths.GROUP_SUBSCRIPTION,
        handler=resubscribe,
        needs=Permission.OPERATE,
        queues=_queue_in_body,
        summary="Start a group at a time, in the partitions that it has not read yet.",
        body=SubscriptionBody,
        response=Resubscribed,
    ),
    post(
        path=paths.SEEK_QUEUE,
        handler=seek,
        needs=Permission.OPERATE,
        queues=named_queue,
        summary="Move a group to the end, the beginning, a time or an offset of every partition.",
        body=SeekBody,
        response=Sought,
    ),
    post(
        path=paths.SEEK_PARTITION,
        handler=seek_partition,
        needs=Permission.OPERATE,
        queues=named_queue,
        summary="Move a group in one partition.",
        body=SeekBody,
        response=SoughtPartition,
    ),
)
