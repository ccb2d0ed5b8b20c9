"""Acknowledging messages, and extending leases."""

from collections.abc import Iterable, Sequence
from typing import Any

from skep.core.broker import Broker
from skep.errors import Invalid, LeaseLost
from skep.http.auth.principal import Permission, not_accessible
from skep.http.limits import ANY_SIZE
from skep.http.request import HttpRequest, HttpResponse
from skep.http.routing import Route
from skep.model.address import partition_of
from skep.model.name import LeaseId, Offset, check_lease_id
from skep.model.operation import Settlement, Status, Verdict
from skep.wire import paths
from skep.wire.message.ack import (
    STATUS,
    AckBatchBody,
    AckBody,
    Acked,
    AckItem,
    ExtendBody,
    Extended,
    SettleBody,
    SettleResponse,
    to_numbers,
    to_settled,
    to_verdicts,
)

NOT_FOUND = "Message not found"
NO_LEASE = "Invalid or expired lease"
_IN_BATCH = "acknowledgments[{}].partition_id"


async def ack(request: HttpRequest) -> HttpResponse:
    """Settle one message."""
    to_numbers([request.body], "partition_id")
    return HttpResponse(await settle_items(request, [request.body], request.body.consumer_group))


async def ack_batch(request: HttpRequest) -> HttpResponse:
    """Settle several messages, under one lease or several."""
    body: AckBatchBody = request.body
    to_numbers(body.acknowledgments, _IN_BATCH)
    return HttpResponse(await settle_items(request, body.acknowledgments, body.consumer_group))


async def settle_items(
    request: HttpRequest, items: Sequence[AckItem], group: str | None
) -> Sequence[Acked]:
    """Settle items lease by lease. A lost lease affects only its own items."""
    by_lease: dict[str, list[int]] = {}
    for index, item in enumerate(items):
        by_lease.setdefault(item.lease_id or "", []).append(index)
    responses: dict[int, Acked] = {}
    for lease_id, indexes in by_lease.items():
        lease_items = {index: items[index] for index in indexes}
        for response in await _settle_lease(request, lease_id, lease_items, group):
            responses[response.index] = response
    return [responses[index] for index in range(len(items))]


async def _settle_lease(
    request: HttpRequest, lease: str, items: dict[int, AckItem], group: str | None
) -> Iterable[Acked]:
    broker = request.broker
    try:
        lease_id = check_lease_id("leaseId", lease)
        _check_holder(request, lease_id)
        if group is not None:
            held_by = await broker.held_messages.group_of_lease(lease_id)
            if held_by not in (group, None):
                raise LeaseLost(lease_id)
        offsets = await find_offsets(broker, lease_id, items)
        verdicts = to_verdicts_of(items, offsets)
        done = await broker.settle(lease_id, list(verdicts.values())) if verdicts else Settlement()
    except (Invalid, LeaseLost):
        return [_not_settled(broker, index, item, NO_LEASE) for index, item in items.items()]
    dead = set(done.given_up)
    return [
        _settled(broker, index, item, done.released, dlq=offsets[index] in dead)
        if offsets[index] is not None
        else _not_settled(broker, index, item, NOT_FOUND)
        for index, item in items.items()
    ]


async def find_offsets(
    broker: Broker, lease_id: LeaseId, items: dict[int, AckItem]
) -> dict[int, tuple[int, Offset] | None]:
    """Partition and offset of each item; None if there is no such message."""
    by_partition: dict[int, list[int]] = {}
    for index, item in items.items():
        by_partition.setdefault(partition_of(item.partition_id), []).append(index)
    located: dict[int, tuple[int, Offset] | None] = {}
    for number, indexes in by_partition.items():
        ids = [items[index].transaction_id for index in indexes]
        offsets = await broker.held_messages.offsets(lease_id, number, ids)
        for index, offset in zip(indexes, offsets, strict=True):
            located[index] = None if offset is None else (number, offset)
    return located


def to_verdicts_of(
    items: dict[int, AckItem], offsets: dict[int, tuple[int, Offset] | None]
) -> dict[tuple[int, Offset], Verdict]:
    """A verdict for each message; a second one for the same message is ignored."""
    verdicts: dict[tuple[int, Offset], Verdict] = {}
    for index, item in items.items():
        message = offsets[index]
        if message is not None and message not in verdicts:
            verdicts[message] = Verdict(*message, STATUS[item.status], item.error or "")
    return verdicts


def _settled(broker: Broker, index: int, item: AckItem, released: bool, *, dlq: bool) -> Acked:
    queue, partition = _names(broker, item)
    return Acked(
        index=index,
        transaction_id=item.transaction_id,
        success=True,
        queue_name=queue,
        partition_name=partition,
        lease_released=released,
        dlq=dlq,
    )


def _not_settled(broker: Broker, index: int, item: AckItem, error: str) -> Acked:
    queue, partition = _names(broker, item)
    return Acked(
        index=index,
        transaction_id=item.transaction_id,
        success=False,
        error=error,
        queue_name=queue,
        partition_name=partition,
    )


def _names(broker: Broker, item: AckItem) -> tuple[str | None, str | None]:
    return broker.held_messages.names(partition_of(item.partition_id)) or (None, None)


def _check_holder(request: HttpRequest, lease_id: LeaseId) -> None:
    """Treat a lease of another principal as lost."""
    if not request.holds(lease_id):
        raise LeaseLost(lease_id)


async def settle(request: HttpRequest) -> HttpResponse:
    """Settle messages of a lease by offset, or all messages of the lease alike."""
    body: SettleBody = request.body
    lease_id = check_lease_id("leaseId", request.params["leaseId"])
    _check_holder(request, lease_id)
    if body.verdicts is not None:
        done = await request.broker.settle(lease_id, to_verdicts(body.verdicts))
    elif body.status is None:
        raise Invalid("status", "is required without verdicts")
    elif STATUS[body.status] == "completed":
        done = await request.broker.ack(lease_id)
    else:
        verdicts = await _verdicts_on_all(request, lease_id, STATUS[body.status])
        done = await request.broker.settle(lease_id, verdicts)
    return HttpResponse(to_settled(done))


async def _verdicts_on_all(
    request: HttpRequest, lease_id: LeaseId, status: Status
) -> list[Verdict]:
    """The same verdict for every message of a lease."""
    error = request.body.error or ""
    held = await request.broker.held_messages.all_held(lease_id)
    if not held:
        raise LeaseLost(lease_id)
    return [Verdict(partition, offset, status, error) for partition, offset in held]


async def extend(request: HttpRequest) -> HttpResponse:
    """Extend a lease. A lost one is a 409: Queen's clients take any 200 for success."""
    lease_id = check_lease_id("leaseId", request.params["leaseId"])
    _check_holder(request, lease_id)
    until = await request.broker.extend(lease_id, request.body.seconds)
    return HttpResponse(
        Extended(
            lease_id=lease_id,
            new_expires_at=until,
            expires_at=until,
            lease_expires_at=until,
        )
    )


async def _queues_of_item(request: HttpRequest) -> Iterable[str]:
    return await queues_of(request.broker, [request.body], "partition_id")


async def _queues_of_items(request: HttpRequest) -> Iterable[str]:
    return await queues_of(request.broker, request.body.acknowledgments, _IN_BATCH)


async def queues_of(broker: Broker, items: Iterable[Any], field: str) -> set[str]:
    """The queues of the partitions that items name in ``field``, which must exist."""
    numbers = set(to_numbers(items, field))
    names = [await broker.held_messages.partition(number) for number in numbers]
    if None in names:
        raise not_accessible()
    return {found[0] for found in names if found}


async def _queues_of_lease(request: HttpRequest) -> Iterable[str]:
    lease_id = check_lease_id("leaseId", request.params["leaseId"])
    return await queues_of_lease(request, lease_id)


async def queues_of_lease(request: HttpRequest, lease_id: LeaseId) -> set[str]:
    """The queues of a lease; empty if another principal holds it."""
    return (
        await request.broker.held_messages.queues_of_lease(lease_id)
        if request.holds(lease_id)
        else set()
    )


async def _queues_of_settlement(request: HttpRequest) -> Iterable[str]:
    named: SettleBody = request.body
    of_verdicts = await queues_of(request.broker, named.verdicts or (), "verdicts[{}].partition_id")
    return {*await _queues_of_lease(request), *of_verdicts}


def _post(path: str, handler: Any, queues: Any, summary: str, body: Any, response: Any) -> Route:
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
    )


ROUTES = (
    _post(
        paths.ACK,
        ack,
        _queues_of_item,
        "Acknowledge one message. A late acknowledgement changes nothing, and `success` is false.",
        AckBody,
        list[Acked],
    ),
    _post(
        paths.ACK_BATCH,
        ack_batch,
        _queues_of_items,
        "Acknowledge several messages.",
        AckBatchBody,
        list[Acked],
    ),
    _post(
        paths.SETTLE,
        settle,
        _queues_of_settlement,
        "Settle messages of a lease by offset, or all its messages if none are named.",
        SettleBody,
        SettleResponse,
    ),
    _post(
        paths.EXTEND,
        extend,
        _queues_of_lease,
        "Extend a lease to at least `seconds` from now.",
        ExtendBody,
        Extended,
    ),
)
