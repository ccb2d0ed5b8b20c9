"""Popping, with long poll."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from skep.errors import Invalid
from skep.http.auth.principal import Permission
from skep.http.request import Call, Reply
from skep.http.routing import Route, every_queue, named_queue
from skep.model.message import Delivery
from skep.model.name import QUEUE_MODE
from skep.wire.message.pop import MAX_TIMEOUT, PausedAnswer, PopAnswer, PopQuery, to_answer

_NEW = frozenset({"new", "new-only"})


async def pop(call: Call) -> Reply:
    """Lease the next messages; 204 if there are none in time."""
    asked = _asked(call)
    delivery = await call.broker.pop(**asked, wait=0)
    if delivery is None and call.query.wait and not call.broker.maintenance.popping:
        delivery = await _while_connected(call, asked, call.query.timeout / 1000)
    if delivery is not None:
        return Reply(to_answer(delivery))
    return Reply(PausedAnswer()) if call.broker.maintenance.popping else Reply(status=204)


async def _while_connected(call: Call, asked: dict[str, Any], wait: float) -> Delivery | None:
    """Wait for messages as long as the client does: nothing is leased for who has gone."""
    popping = asyncio.current_task()
    assert popping is not None
    gone = asyncio.ensure_future(_cancel_when_gone(call, popping))
    try:
        return await call.broker.pop(**asked, wait=wait, authorize=call.authorize)
    except asyncio.CancelledError:
        if not gone.done():
            raise
        popping.uncancel()
        return None
    finally:
        gone.cancel()


async def _cancel_when_gone(call: Call, popping: asyncio.Task[Any]) -> None:
    while (await call.receive())["type"] != "http.disconnect":
        pass
    popping.cancel()


def _asked(call: Call) -> dict[str, Any]:
    query: PopQuery = call.query
    if not 0 <= query.timeout <= MAX_TIMEOUT:
        raise Invalid("timeout", f"must be from 0 to {MAX_TIMEOUT}, not {query.timeout}")
    asked: dict[str, Any] = {
        "queue": call.params.get("queue"),
        "partition": call.params.get("partition"),
        "group": query.consumer_group or QUEUE_MODE,
        "batch": query.batch,
        "partitions": query.partitions,
        "auto_ack": query.auto_ack,
        "lease_seconds": query.lease_seconds,
        "subscription_mode": "new" if _is_new(query) else "all",
        "subscription_from": _instant(query.subscription_from),
        "principal": call.principal.holder,
    }
    if "queue" not in call.params:
        asked |= {"namespace": query.namespace, "task": query.task}
    return asked


def _is_new(query: PopQuery) -> bool:
    """Words that are not known mean ``all``, as Queen has it."""
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


def _route(path: str, queues: Any, about: str) -> Route:
    return Route(
        method="GET",
        path=path,
        handler=pop,
        needs=Permission.POP,
        queues=queues,
        about=about,
        query=PopQuery,
        answer=(PopAnswer, PausedAnswer),
        may_be_empty=True,
    )


ROUTES = (
    _route(
        "/api/v1/pop/queue/{queue}",
        named_queue,
        "Lease the next messages of a queue; 204 if there are none.",
    ),
    _route(
        "/api/v1/pop/queue/{queue}/partition/{partition}",
        named_queue,
        "Lease the next messages of one partition; 204 if there are none.",
    ),
    _route(
        "/api/v1/pop",
        every_queue,
        "Lease the next messages of the queues with a namespace or a task, "
        "the highest priority first; 204 if there are none.",
    ),
)
