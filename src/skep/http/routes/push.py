"""Pushing."""

from collections.abc import Iterable, Sequence
from functools import partial

from skep.errors import FieldPath, InMaintenance
from skep.http.auth.principal import Permission
from skep.http.limits import ANY_SIZE
from skep.http.request import HttpRequest, HttpResponse
from skep.http.routing import Route
from skep.model.message import Draft
from skep.model.operation import Push
from skep.wire import paths
from skep.wire.field_path import Origins
from skep.wire.message.push import (
    Buffered,
    PushBody,
    Pushed,
    PushItem,
    to_drafts,
    to_push_response,
    to_pushed,
)


async def push(request: HttpRequest) -> HttpResponse:
    """Append messages to one queue or several, all or none."""
    items: list[PushItem] = request.body.items
    if not items:
        return HttpResponse([], 201)
    drafts = to_drafts(items, most=request.broker.limits.payload_bytes)
    request.origins = partial(origins_of, items)
    return HttpResponse(await _push(request, items, drafts), 201)


async def _push(
    request: HttpRequest, items: list[PushItem], drafts: list[Draft]
) -> list[Pushed] | list[Buffered]:
    while True:
        if request.broker.maintenance.buffers:
            buffered = await _buffer(request, items, drafts)
            if buffered is not None:
                return buffered
        try:
            return await _deliver(request, items, drafts)
        except InMaintenance:
            # Maintenance began at another server, and this one has just been notified.
            continue


async def _deliver(
    request: HttpRequest, items: list[PushItem], drafts: list[Draft]
) -> list[Pushed]:
    queue = items[0].queue
    if all(item.queue == queue for item in items):
        receipts = await request.broker.push(queue, drafts, producer=request.principal.subject)
        return to_push_response(queue, items, receipts)
    return await _push_to_several(request, items, drafts)


async def _push_to_several(
    request: HttpRequest, items: list[PushItem], drafts: list[Draft]
) -> list[Pushed]:
    by_queue = _by_queue(items)
    done = await request.broker.transact(
        [Push(queue, [drafts[index] for index in indexes]) for queue, indexes in by_queue.items()],
        producer=request.principal.subject,
    )
    responses = [
        to_pushed(index, queue, items[index], receipt)
        for (queue, indexes), receipts in zip(by_queue.items(), done.receipts, strict=True)
        for index, receipt in zip(indexes, receipts, strict=True)
    ]
    return sorted(responses, key=lambda response: response.index)


async def _buffer(
    request: HttpRequest, items: list[PushItem], drafts: list[Draft]
) -> list[Buffered] | None:
    by_queue = {
        queue: [drafts[index] for index in indexes] for queue, indexes in _by_queue(items).items()
    }
    kept = await request.broker.maintenance.buffer(by_queue, request.principal.subject)
    if kept is None:
        return None
    in_turn = {queue: iter(queue_drafts) for queue, queue_drafts in kept.items()}
    return [
        Buffered(
            index=index,
            queue=item.queue,
            partition=item.partition,
            transaction_id=next(in_turn[item.queue]).transaction_id or "",
        )
        for index, item in enumerate(items)
    ]


def _by_queue(items: Sequence[PushItem]) -> dict[str, list[int]]:
    """The indexes of the items of each queue."""
    by_queue: dict[str, list[int]] = {}
    for index, item in enumerate(items):
        by_queue.setdefault(item.queue, []).append(index)
    return by_queue


def origins_of(items: Sequence[PushItem], name: str = "items") -> Origins:
    """The items that the core's arguments were made from: it gets them by queue."""
    origins: dict[FieldPath, FieldPath] = {("queue",): (name, 0, "queue"), ("drafts",): (name,)}
    for number, indexes in enumerate(_by_queue(items).values()):
        for push in (("operations", number), ("pushes", number)):
            origins[*push, "queue"] = (name, indexes[0], "queue")
            origins[*push, "drafts"] = (name,)
            for draft, index in enumerate(indexes):
                origins[*push, "drafts", draft] = (name, index)
    return origins


def queues_of_items(request: HttpRequest) -> Iterable[str]:
    return {item.queue for item in request.body.items}


ROUTES = (
    Route(
        method="POST",
        path=paths.PUSH,
        handler=push,
        needs=Permission.PUSH,
        queues=queues_of_items,
        summary="Push messages, all or none. After a 201 they are on disk.",
        body=PushBody,
        body_bytes=ANY_SIZE,
        response=(list[Pushed], list[Buffered]),
        status=201,
    ),
)
