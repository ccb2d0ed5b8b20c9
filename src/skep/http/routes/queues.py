"""Configuring, deleting and clearing queues."""

from skep.errors import QueueNotFound
from skep.http.auth.principal import Permission
from skep.http.request import Call, Reply
from skep.http.routing import delete, get, named_queue, post
from skep.model.address import queue_id
from skep.wire.admin.queue import (
    Cleared,
    ClearQuery,
    ConfigureBody,
    Configured,
    DeletedQueue,
    to_configured,
    to_options,
)
from skep.wire.admin.retention import Removals, RemovalsQuery, from_removals


async def configure(call: Call) -> Reply:
    """Create a queue or replace its configuration."""
    body: ConfigureBody = call.body
    queue, partition = await call.broker.queues.create(
        body.queue, namespace=body.namespace, task=body.task, **to_options(body.options)
    )
    return Reply(to_configured(queue, partition))


async def delete_queue(call: Call) -> Reply:
    """Remove a queue with all it holds. That there is none is no error: it is gone."""
    name = call.params["queue"]
    try:
        number = (await call.broker.queues.get(name)).number
        await call.broker.queues.delete(name)
    except QueueNotFound:
        return Reply(DeletedQueue(queue=name, existed=False, id=None))
    return Reply(DeletedQueue(queue=name, existed=True, id=queue_id(number)))


async def clear(call: Call) -> Reply:
    """Remove the messages of a queue or of one partition; offsets and groups stay."""
    name, partition = call.params["queue"], call.query.partition
    count = await call.broker.queues.clear(name, partition=partition)
    return Reply(Cleared(count=count, queue=name, partition=partition or "all"))


async def removals(call: Call) -> Reply:
    """The retention history of a queue."""
    queue = await call.broker.queues.get(call.params["queue"])
    found = await call.broker.queues.removals(queue.name, limit=call.query.limit)
    return Reply(from_removals(queue, found))


ROUTES = (
    post(
        path="/api/v1/configure",
        handler=configure,
        needs=Permission.OPERATE,
        queues=lambda call: (call.body.queue,),
        about="Create a queue, or replace its configuration: what is left out has its default.",
        body=ConfigureBody,
        answer=Configured,
    ),
    delete(
        path="/api/v1/resources/queues/{queue}",
        handler=delete_queue,
        needs=Permission.ADMIN,
        queues=named_queue,
        about="Delete a queue with its messages, groups, dead letters and traces.",
        answer=DeletedQueue,
    ),
    delete(
        path="/api/v1/queues/{queue}/clear",
        handler=clear,
        needs=Permission.ADMIN,
        queues=named_queue,
        about="Remove all messages of a queue or of one partition; its groups stay.",
        query=ClearQuery,
        answer=Cleared,
    ),
    get(
        path="/api/v1/queues/{queue}/removals",
        handler=removals,
        needs=Permission.STATUS,
        queues=named_queue,
        about="What left a queue in the last 90 days, and by which rule, newest first.",
        query=RemovalsQuery,
        answer=Removals,
    ),
)
