"""Queues: configure, delete, clear."""

from skep.errors import QueueNotFound
from skep.http.auth.principal import Permission
from skep.http.request import HttpRequest, HttpResponse
from skep.http.routing import delete, get, named_queue, post
from skep.model.address import queue_id
from skep.wire import paths
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


async def configure(request: HttpRequest) -> HttpResponse:
    """Create a queue or replace its configuration."""
    body: ConfigureBody = request.body
    queue, partition = await request.broker.queues.create(
        body.queue, namespace=body.namespace, task=body.task, **to_options(body.options)
    )
    return HttpResponse(to_configured(queue, partition))


async def delete_queue(request: HttpRequest) -> HttpResponse:
    """Delete a queue with its content; not an error if there is none."""
    name = request.params["queue"]
    try:
        number = (await request.broker.queues.get(name)).number
        await request.broker.queues.delete(name)
    except QueueNotFound:
        return HttpResponse(DeletedQueue(queue=name, existed=False, id=None))
    return HttpResponse(DeletedQueue(queue=name, existed=True, id=queue_id(number)))


async def clear(request: HttpRequest) -> HttpResponse:
    """Delete the messages of a queue or of one partition; offsets and groups stay."""
    name, partition = request.params["queue"], request.query.partition
    count = await request.broker.queues.clear(name, partition=partition)
    return HttpResponse(Cleared(count=count, queue=name, partition=partition or "all"))


async def removals(request: HttpRequest) -> HttpResponse:
    """The retention history of a queue."""
    queue = await request.broker.queues.get(request.params["queue"])
    history = await request.broker.queues.removals(queue.name, limit=request.query.limit)
    return HttpResponse(from_removals(queue, history))


ROUTES = (
    post(
        path=paths.CONFIGURE,
        handler=configure,
        needs=Permission.OPERATE,
        queues=lambda request: (request.body.queue,),
        summary="Create a queue, or replace its configuration: omitted options get their defaults.",
        body=ConfigureBody,
        response=Configured,
    ),
    delete(
        path=paths.QUEUE,
        handler=delete_queue,
        needs=Permission.ADMIN,
        queues=named_queue,
        summary="Delete a queue with its messages, groups, dead letters and traces.",
        response=DeletedQueue,
    ),
    delete(
        path=paths.CLEAR,
        handler=clear,
        needs=Permission.ADMIN,
        queues=named_queue,
        summary="Delete all messages of a queue or of one partition; its groups stay.",
        query=ClearQuery,
        response=Cleared,
    ),
    get(
        path=paths.REMOVALS,
        handler=removals,
        needs=Permission.STATUS,
        queues=named_queue,
        summary="Messages removed from a queue in the last 90 days, by rule, newest first.",
        query=RemovalsQuery,
        response=Removals,
    ),
)
