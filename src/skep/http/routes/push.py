"""Pushing."""

from collections.abc import Iterable

from skep.core.broker import Broker
from skep.http.access import Permission
from skep.http.call import Call, Reply
from skep.http.routing import Route
from skep.model.message import Draft
from skep.model.operation import Push
from skep.wire.push import Buffered, PushBody, Pushed, PushItem, to_answer, to_draft, to_pushed


async def push(call: Call) -> Reply:
    """Append messages, of one queue or of several, all or none."""
    items: list[PushItem] = call.body.items
    if not items:
        return Reply([], 201)
    if call.broker.maintenance.laying_aside:
        return Reply(await _lay_aside(call, items), 201)
    queue = items[0].queue
    drafts = [to_draft(index, item) for index, item in enumerate(items)]
    if all(item.queue == queue for item in items):
        receipts = await call.broker.push(queue, drafts, producer=call.principal.subject)
        return Reply(to_answer(queue, items, receipts), 201)
    return Reply(await _push_to_several(call.broker, items, call.principal.subject), 201)


async def _push_to_several(
    broker: Broker, items: list[PushItem], producer: str | None
) -> list[Pushed]:
    by_queue: dict[str, list[int]] = {}
    for index, item in enumerate(items):
        by_queue.setdefault(item.queue, []).append(index)
    done = await broker.transact(
        [
            Push(queue, [to_draft(index, items[index]) for index in indexes])
            for queue, indexes in by_queue.items()
        ],
        producer=producer,
    )
    answers = [
        to_pushed(index, queue, items[index], receipt)
        for (queue, indexes), receipts in zip(by_queue.items(), done.receipts, strict=True)
        for index, receipt in zip(indexes, receipts, strict=True)
    ]
    return sorted(answers, key=lambda answer: answer.index)


async def _lay_aside(call: Call, items: list[PushItem]) -> list[Buffered]:
    drafts: dict[str, list[Draft]] = {}
    for index, item in enumerate(items):
        drafts.setdefault(item.queue, []).append(to_draft(index, item))
    laid = await call.broker.maintenance.lay_aside(drafts, call.principal.subject)
    in_turn = {queue: iter(some) for queue, some in laid.items()}
    return [
        Buffered(
            index=index,
            queue=item.queue,
            partition=item.partition,
            transaction_id=next(in_turn[item.queue]).transaction_id or "",
        )
        for index, item in enumerate(items)
    ]


def queues_of_items(call: Call) -> Iterable[str]:
    return {item.queue for item in call.body.items}


ROUTES = (
    Route(
        method="POST",
        path="/api/v1/push",
        handler=push,
        needs=Permission.PUSH,
        queues=queues_of_items,
        about="Push messages, all of them or none. What is answered 201 is on disk.",
        body=PushBody,
        answer=(list[Pushed], list[Buffered]),
        status=201,
    ),
)
