"""Pop, with long poll."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from skep.errors import Invalid
from skep.http.auth.principal import Permission
from skep.http.request import HttpRequest, HttpResponse
from skep.http.routing import Route, every_queue, named_queue
from skep.model.message import Delivery
from skep.model.name import QUEUE_MODE
from skep.wire import paths
from skep.wire.message.pop import (
    MAX_TIMEOUT,
    PausedResponse,
    PopQuery,
    PopResponse,
    to_pop_response,
)

_NEW = frozenset({"new", "new-only"})


async def pop(request: HttpRequest) -> HttpResponse:
    """Lease the next messages; 204 if there are none in time."""
    arguments = _pop_arguments(request)
    delivery = await request.broker.pop(**arguments, wait=0)
    if delivery is None and request.query.wait and not request.broker.maintenance.popping:
        delivery = await _while_connected(request, arguments, request.query.timeout / 1000)
    if delivery is not None:
        return HttpResponse(to_pop_response(delivery))
    return (
        HttpResponse(PausedResponse())
        if request.broker.maintenance.popping
        else HttpResponse(status=204)
    )


async def _while_connected(
    request: HttpRequest, arguments: dict[str, Any], wait: float
) -> Delivery | None:
    """Wait for messages while the client is connected: nothing is leased for a client that left."""
    popping = asyncio.current_task()
    assert popping is not None
    disconnected = asyncio.ensure_future(_cancel_on_disconnect(request, popping))
    try:
        return await request.broker.pop(**arguments, wait=wait, authorize=request.authorize)
    except asyncio.CancelledError:
        if not disconnected.done():
            raise
        popping.uncancel()
        return None
    finally:
        disconnected.cancel()


async def _cancel_on_disconnect(request: HttpRequest, popping: asyncio.Task[Any]) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    popping.cancel()


def _pop_arguments(request: HttpRequest) -> dict[str, Any]:
    query: PopQuery = request.query
    if not 0 <= query.timeout <= MAX_TIMEOUT:
        raise Invalid("timeout", f"must be from 0 to {MAX_TIMEOUT}, not {query.timeout}")
    arguments: dict[str, Any] = {
        "queue": request.params.get("queue"),
        "partition": request.params.get("partition"),
        "group": query.consumer_group or QUEUE_MODE,
        "batch": query.batch,
        "partitions": query.partitions,
        "auto_ack": query.auto_ack,
        "lease_seconds": query.lease_seconds,
        "subscription_mode": "new" if _is_new(query) else "all",
        "subscription_from": _instant(query.subscription_from),
        "principal": request.principal.holder,
    }
    if "queue" not in request.params:
        arguments |= {"namespace": query.namespace, "task": query.task}
    return arguments


def _is_new(query: PopQuery) -> bool:
    """Unknown modes mean ``all``, as in Queen."""
    return query.subscription_mode in _NEW or query.subscription_from == "now"


def _instant(text: str | None) -> datetime | None:
    if text is None or text == "now":
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(
            "subscriptionFrom", "must be 'now' or a time such as 2030-01-02T03:04:05Z"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _route(path: str, queues: Any, summary: str) -> Route:
    return Route(
        method="GET",
        path=path,
        handler=pop,
        needs=Permission.POP,
        queues=queues,
        summary=summary,
        query=PopQuery,
        response=(PopResponse, PausedResponse),
        may_be_empty=True,
    )


ROUTES = (
    _route(
        paths.POP_QUEUE,
        named_queue,
        "Lease the next messages of a queue; 204 if there are none.",
    ),
    _route(
        paths.POP_PARTITION,
        named_queue,
        "Lease the next messages of one partition; 204 if there are none.",
    ),
    _route(
        paths.POP,
        every_queue,
        "Lease the next messages of the queues with a namespace or a task, "
        "highest priority first; 204 if there are none.",
    ),
)
