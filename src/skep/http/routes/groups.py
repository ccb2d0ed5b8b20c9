"""Consumer groups: how far they are, and moving them."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from skep.core.aio import yielding
from skep.core.journal.reader_group import Reader
from skep.errors import Conflict, Invalid
from skep.http.auth.principal import Permission
from skep.http.request import Call, Reply
from skep.http.routing import delete, get, named_queue, no_queue, post
from skep.model.name import to_datetime
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
    to_group_partition,
    to_group_row,
    to_lagging_row,
    to_target,
)
from skep.wire.pagination import in_utc


async def groups(call: Call) -> Reply:
    """Every group of every queue that the caller sees."""
    lags = await call.broker.insight.groups.groups(call.principal.sees)
    now = _now(call)
    return Reply([to_group_row(lag, now) for lag in lags])


async def group(call: Call) -> Reply:
    """One group in each of its queues, by partition."""
    name, query = call.params["group"], call.query
    lags, now = call.broker.insight.groups, _now(call)
    return Reply(
        {
            queue: GroupQueue(
                partitions=[
                    to_group_partition(lag, now)
                    async for lag in yielding(
                        await lags.partitions(queue, name, offset=query.offset, limit=query.limit)
                    )
                ]
            )
            for queue in await lags.find_all(name, call.principal.sees)
        }
    )


async def lagging(call: Call) -> Reply:
    """Where messages wait longer than that, the oldest first."""
    query: LaggingQuery = call.query
    places = await call.broker.insight.groups.lagging(
        call.principal.sees, seconds=query.min_lag_seconds, limit=query.limit
    )
    now = _now(call)
    return Reply(
        [to_lagging_row(each.queue, each.group, each.lag, now) async for each in yielding(places)]
    )


async def delete_group(call: Call) -> Reply:
    """Forget a group in every queue that the caller sees."""
    name = call.params["group"]
    queues = await call.broker.insight.groups.of(name, call.principal.sees)
    return Reply(await _delete(call, name, queues, None, await _reader(call, name)))


async def delete_group_in_queue(call: Call) -> Reply:
    """Forget a group in one queue."""
    name, queue = call.params["group"], call.params["queue"]
    await call.broker.queues.get(queue)
    queues = await call.broker.insight.groups.of(name, lambda each: each == queue)
    reader = await _reader(call, name)
    if reader is not None and queue not in reader.position.queues:
        reader = None
    return Reply(await _delete(call, name, queues, queue, reader))


async def _reader(call: Call, name: str) -> Reader | None:
    """A group that reads journals, if the caller sees all of their queues."""
    found = await call.broker.reader_groups.find(name)
    return found if found and all(map(call.principal.sees, found.position.queues)) else None


async def _delete(
    call: Call, name: str, queues: Sequence[str], queue: str | None, reader: Reader | None
) -> DeletedGroup:
    """That there is no such group is no error: it is gone."""
    partitions = 0
    if reader is not None:
        if not call.query.delete_metadata:
            raise Conflict(f"{name!r} reads the journal: where it starts is in its checkpoint")
        await call.broker.reader_groups.forget(name)
    for each in queues:
        if call.query.delete_metadata:
            partitions += (await call.broker.insight.groups.group(each, name)).partitions
            await call.broker.groups.delete(each, name)
        else:
            partitions += await call.broker.groups.restart(each, name)
    return DeletedGroup(
        consumer_group=name,
        queue_name=queue,
        deleted_partitions=partitions,
        metadata_deleted=call.query.delete_metadata and bool(queues or reader),
    )


async def resubscribe(call: Call) -> Reply:
    """Let a group start elsewhere, wherever it has not read anything yet."""
    name, start = call.params["group"], in_utc(call.body.subscription_timestamp)
    queues = await _subscribed(call, name)
    moved = [await call.broker.groups.resubscribe(queue, name, start) for queue in queues]
    return Reply(
        Resubscribed(
            consumer_group=name,
            new_timestamp=start,
            rows_updated=len(queues),
            partitions_updated=sum(moved),
        )
    )


async def _subscribed(call: Call, name: str) -> Sequence[str]:
    """The queue that is asked for, or all that the caller sees and the group has popped from."""
    queue = call.body.queue_name
    if queue is None:
        return await call.broker.insight.groups.find(name, call.principal.sees)
    return ((await call.broker.queues.get(queue)).name,)


def _queue_in_body(call: Call) -> Iterable[str]:
    return () if call.body.queue_name is None else (call.body.queue_name,)


async def seek(call: Call) -> Reply:
    """Move a group in all partitions of a queue; its leases end."""
    body: SeekBody = call.body
    updated = await _seek(call, None)
    return Reply(
        Sought(
            consumer_group=call.params["group"],
            queue_name=call.params["queue"],
            seek_to_end=body.to_end,
            seek_to_beginning=body.to_beginning,
            target_timestamp=in_utc(body.timestamp),
            target_offset=body.offset,
            partitions_updated=updated,
        )
    )


async def seek_partition(call: Call) -> Reply:
    """Move a group in one partition of a queue; its lease there ends."""
    body: SeekBody = call.body
    queue, name, partition = (call.params[key] for key in ("queue", "group", "partition"))
    updated = await _seek(call, partition)
    (lag,) = await call.broker.groups.lag(queue, name, partition=partition)
    return Reply(
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


async def _seek(call: Call, partition: str | None) -> int:
    field, target = to_target(call.body)
    try:
        return await call.broker.groups.seek(
            call.params["queue"], call.params["group"], target, partition=partition
        )
    except Invalid as error:
        # The core knows one argument where the wire has four fields.
        raise Invalid(field if error.field == "to" else error.field, error.reason) from None


def _now(call: Call) -> datetime:
    return to_datetime(call.broker.insight.clock.now())


ROUTES = (
    get(
        path="/api/v1/consumer-groups",
        handler=groups,
        needs=Permission.STATUS,
        queues=no_queue,
        about="Every group in every queue, and how far it is behind.",
        answer=list[GroupRow],
    ),
    get(
        path="/api/v1/consumer-groups/lagging",
        handler=lagging,
        needs=Permission.STATUS,
        queues=no_queue,
        about="Partitions in which messages wait for a group longer than that.",
        query=LaggingQuery,
        answer=list[LaggingRow],
    ),
    get(
        path="/api/v1/consumer-groups/{group}",
        handler=group,
        needs=Permission.STATUS,
        queues=no_queue,
        about="One group in each partition of each of its queues.",
        query=GroupQuery,
        answer=dict[str, GroupQueue],
    ),
    delete(
        path="/api/v1/consumer-groups/{group}",
        handler=delete_group,
        needs=Permission.ADMIN,
        queues=no_queue,
        about="Forget a group in every queue: its next pop is a first contact.",
        query=DeleteGroupQuery,
        answer=DeletedGroup,
    ),
    delete(
        path="/api/v1/consumer-groups/{group}/queues/{queue}",
        handler=delete_group_in_queue,
        needs=Permission.ADMIN,
        queues=named_queue,
        about="Forget a group in one queue.",
        query=DeleteGroupQuery,
        answer=DeletedGroup,
    ),
    post(
        path="/api/v1/consumer-groups/{group}/subscription",
        handler=resubscribe,
        needs=Permission.OPERATE,
        queues=_queue_in_body,
        about="Let a group start at a time in the partitions that it has not read yet.",
        body=SubscriptionBody,
        answer=Resubscribed,
    ),
    post(
        path="/api/v1/consumer-groups/{group}/queues/{queue}/seek",
        handler=seek,
        needs=Permission.OPERATE,
        queues=named_queue,
        about="Move a group to the end, the beginning, a time or an offset of every partition.",
        body=SeekBody,
        answer=Sought,
    ),
    post(
        path="/api/v1/consumer-groups/{group}/queues/{queue}/partitions/{partition}/seek",
        handler=seek_partition,
        needs=Permission.OPERATE,
        queues=named_queue,
        about="Move a group in one partition.",
        body=SeekBody,
        answer=SoughtPartition,
    ),
)
