"""Stream queries: register, read state, run a cycle."""

from collections.abc import Iterable, Sequence
from functools import partial

import msgspec

from skep.core.transaction.stream_query import CycleAck, Query
from skep.errors import Conflict, LeaseLost, NotFound, QueryChanged
from skep.http.auth.principal import Permission, not_accessible
from skep.http.limits import ANY_SIZE
from skep.http.problems import status_of
from skep.http.request import HttpRequest, HttpResponse
from skep.http.routes.push import origins_of
from skep.http.routing import Handler, Queues, Route
from skep.model.address import partition_of
from skep.model.entry import Entry
from skep.model.name import check_lease_id, to_datetime
from skep.model.operation import Push, Transaction
from skep.wire import paths
from skep.wire.body import encode
from skep.wire.message.ack import STATUS
from skep.wire.message.push import PushItem, to_draft, to_pushed
from skep.wire.message.stream_query import (
    CycleAckResult,
    CycleBody,
    CycleResponse,
    RegisterBody,
    Registered,
    StateBody,
    StateResponse,
    StateRow,
)
from skep.wire.payload import check_depth
from skep.wire.problem import to_problem


async def register(request: HttpRequest) -> HttpResponse:
    """Register a query by name; a changed computation is rejected."""
    body: RegisterBody = request.body
    await _check_owner(request, body.name)
    try:
        query, fresh = await request.broker.stream_queries.register(
            body.name,
            source_queue=body.source_queue,
            sink_queue=body.sink_queue,
            config_hash=body.config_hash,
            reset=body.reset,
        )
    except QueryChanged as changed:
        status = status_of(changed)
        return HttpResponse({"success": False, **to_problem(changed, status)}, status)
    return HttpResponse(_registered(query, fresh, body.reset))


async def _check_owner(request: HttpRequest, name: str) -> None:
    """A caller restricted to some queues may not take over a query, and its state, over others."""
    registered = (
        await request.broker.stream_queries.find(name) if request.principal.restricted else None
    )
    if registered is not None:
        request.principal.check_queues(
            {registered.source_queue, registered.sink_queue or registered.source_queue}
        )


def _registered(query: Query, fresh: bool, reset: bool) -> Registered:
    return Registered(
        query_id=query.id,
        name=query.name,
        config_hash=query.config_hash,
        fresh=fresh,
        reset=reset,
    )


async def read_state(request: HttpRequest) -> HttpResponse:
    """The state of a query for a partition."""
    body: StateBody = request.body
    pages = request.broker.stream_queries.state(
        body.query_id,
        partition_of(body.partition_id),
        keys=body.keys,
        prefix=body.key_prefix or "",
    )
    rows = [row async for page in pages if (row := _rows(page, body.ripe_at_or_before))]
    return HttpResponse(b'{"success":true,"rows":[%b]}' % b",".join(rows))


def _rows(page: Sequence[tuple[str, Entry]], ripe_at_or_before: int | None) -> bytes:
    return b",".join(
        encode(_row(key, entry))
        for key, entry in page
        if ripe_at_or_before is None or _is_ripe(entry, ripe_at_or_before)
    )


def _row(key: str, entry: Entry) -> StateRow:
    return StateRow(
        key=key, value=msgspec.Raw(entry.value), updated_at=to_datetime(entry.updated_at)
    )


class _Window(msgspec.Struct, rename="camel"):
    window_end: float


def _is_ripe(entry: Entry, bound: int) -> bool:
    try:
        return msgspec.json.decode(entry.value, type=_Window).window_end <= bound
    except msgspec.ValidationError:
        return False


async def cycle(request: HttpRequest) -> HttpResponse:
    """Write state, push and ack in one change. Conflicts are reported in the response."""
    body: CycleBody = request.body
    if body.push_items:
        request.principal.check(Permission.PUSH)
        await request.broker.maintenance.check_normal()
    number = partition_of(body.partition_id)
    pushes = _pushes(body.push_items, request.broker.limits.payload_bytes)
    request.origins = partial(origins_of, body.push_items, "push_items")
    try:
        done = await request.broker.stream_queries.cycle(
            body.query_id,
            number,
            state=[_state(index, body) for index in range(len(body.state_ops))],
            pushes=list(pushes.values()),
            ack=_ack(request),
            producer=request.principal.subject,
        )
    except (Conflict, NotFound) as error:
        refused = CycleResponse(
            success=False,
            query_id=body.query_id,
            partition_id=body.partition_id,
            error=str(error),
        )
        return HttpResponse(refused)
    names = await request.broker.held_messages.partition(number)
    return HttpResponse(_cycled(body, names[0] if names else None, pushes, done))


def _state(index: int, body: CycleBody) -> tuple[str, bytes | None]:
    operation = body.state_ops[index]
    if operation.type == "delete":
        return operation.key, None
    value = bytes(operation.value)
    check_depth(f"state_ops[{index}].value", value)
    return operation.key, value


def _pushes(items: Iterable[PushItem], most: int) -> dict[str, Push]:
    drafts: dict[str, list[tuple[int, PushItem]]] = {}
    for index, item in enumerate(items):
        drafts.setdefault(item.queue, []).append((index, item))
    return {
        queue: Push(
            queue,
            [to_draft(f"push_items[{at}].payload", item, most=most) for at, item in indexed_items],
        )
        for queue, indexed_items in drafts.items()
    }


def _ack(request: HttpRequest) -> CycleAck | None:
    body: CycleBody = request.body
    if body.ack is None:
        return None
    lease_id = check_lease_id("ack.leaseId", body.ack.lease_id)
    if not request.holds(lease_id):
        raise LeaseLost(lease_id)
    return CycleAck(
        lease_id=lease_id,
        transaction_id=body.ack.transaction_id,
        status=STATUS[body.ack.status],
        error=body.ack.error or "",
        release=body.release_lease,
    )


def _cycled(
    body: CycleBody, queue: str | None, pushes: dict[str, Push], done: Transaction
) -> CycleResponse:
    receipts = {
        name: iter(queue_receipts)
        for name, queue_receipts in zip(pushes, done.receipts, strict=True)
    }
    result = None
    if body.ack is not None:
        (settlement,) = done.settlements
        result = CycleAckResult(
            success=True,
            count=body.ack.count,
            lease_released=settlement.released,
            dlq=bool(settlement.given_up),
        )
    return CycleResponse(
        success=True,
        query_id=body.query_id,
        partition_id=body.partition_id,
        queue=queue,
        state_ops_applied=len(body.state_ops),
        push_results=[
            to_pushed(index, item.queue, item, next(receipts[item.queue]))
            for index, item in enumerate(body.push_items)
        ],
        ack_result=result,
    )


def _queues_of_query(request: HttpRequest) -> Iterable[str]:
    body: RegisterBody = request.body
    return {body.source_queue, body.sink_queue or body.source_queue}


async def _queue_of_partition(request: HttpRequest) -> Iterable[str]:
    names = await request.broker.held_messages.partition(partition_of(request.body.partition_id))
    if names is None:
        raise not_accessible()
    return {names[0]}


async def _queues_of_cycle(request: HttpRequest) -> Iterable[str]:
    return {*await _queue_of_partition(request), *(item.queue for item in request.body.push_items)}


def _post(
    path: str, handler: Handler, queues: Queues, summary: str, body: object, response: object
) -> Route:
    return Route(
        method="POST",
        path=path,
        handler=handler,
        needs=Permission.POP,
        queues=queues,
        summary=summary,
        body=body,
        body_bytes=ANY_SIZE,
        response=response,
        fields={"state": "state_ops", "prefix": "key_prefix"},
    )


ROUTES = (
    _post(
        paths.STREAM_QUERIES,
        register,
        _queues_of_query,
        "Register a stream query; 409 if its computation has changed.",
        RegisterBody,
        Registered,
    ),
    _post(
        paths.STREAM_STATE,
        read_state,
        _queue_of_partition,
        "Read the state of a stream query for a partition.",
        StateBody,
        StateResponse,
    ),
    _post(
        paths.STREAM_CYCLE,
        cycle,
        _queues_of_cycle,
        "Write a cycle's state, push its results and acknowledge its source, all or nothing.",
        CycleBody,
        CycleResponse,
    ),
)
