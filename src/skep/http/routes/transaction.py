"""Transactions: pushes, acks and extensions, all or nothing."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from uuid import UUID, uuid4

import msgspec

from skep.core.transaction.request import fingerprint_of
from skep.errors import Conflict, KeyReused, LeaseLost, NotFound, SkepError
from skep.http.auth.principal import Permission
from skep.http.limits import ANY_SIZE
from skep.http.problems import status_of
from skep.http.request import HttpRequest, HttpResponse
from skep.http.routes.ack import queues_of, queues_of_lease
from skep.http.routes.transaction_plan import TransactionPlan, add_acks, items_of, plan_pushes
from skep.http.routing import Route
from skep.model.address import partition_id
from skep.model.change import IdempotencyKey
from skep.model.message import Receipt
from skep.model.name import LeaseId, Offset, check_lease_id, check_transaction_id
from skep.model.operation import Push, Transaction
from skep.wire import paths
from skep.wire.message.ack import to_settled
from skep.wire.message.transaction import (
    AckOperation,
    ExtendOperation,
    OperationResult,
    PushOperation,
    SettleOperation,
    TransactionBody,
    TransactionResponse,
    WireOperation,
)
from skep.wire.problem import to_problem


class _Memo(msgspec.Struct, frozen=True, array_like=True):
    """What the response needs and a repeated request cannot recompute."""

    transaction_id: UUID
    acks: dict[int, tuple[int, tuple[int, Offset] | None]]


async def transact(request: HttpRequest) -> HttpResponse:
    """Apply all operations or none. Conflicts are reported in the response: clients expect 200."""
    body: TransactionBody = request.body
    _check_permissions(request)
    key = _key_of(request)
    pushes = await plan_pushes(body.operations, most=request.broker.limits.payload_bytes)
    if key is not None and (earlier := await _find(request, key, pushes)):
        return HttpResponse(earlier)
    if pushes.operations:
        await request.broker.maintenance.check_normal()
    try:
        _check_holder(request)
        plan = await add_acks(pushes, request.broker, body)
        return HttpResponse(await _do(request, key, plan))
    except (Conflict, NotFound) as error:
        # The conflict may be that another server has applied the same request meanwhile.
        if key is not None and (earlier := await _find(request, key, pushes)):
            return HttpResponse(earlier)
        return HttpResponse(_failed(body, error))


def _check_holder(request: HttpRequest) -> None:
    """Treat a lease of another principal as lost."""
    for lease_id in _leases(request.body):
        if not request.holds(lease_id):
            raise LeaseLost(lease_id)


def _leases(body: TransactionBody) -> Iterator[LeaseId]:
    for index, operation in enumerate(body.operations):
        if not isinstance(operation, PushOperation) and operation.lease_id:
            yield check_lease_id(f"operations[{index}].leaseId", operation.lease_id)
    for lease in body.required_leases:
        yield check_lease_id("requiredLeases", lease)


def _key_of(request: HttpRequest) -> IdempotencyKey | None:
    """The key, with a fingerprint of the request.

    Each principal has its own keys: it must neither use those of another nor learn of them.
    """
    name = request.body.idempotency_key
    if name is None:
        return None
    check_transaction_id("idempotencyKey", name)
    if request.principal.id is not None:
        name = fingerprint_of(f"{request.principal.id} {name}".encode()).hex()
    return IdempotencyKey(name=name, fingerprint=fingerprint_of(msgspec.json.encode(request.body)))


async def _find(
    request: HttpRequest, key: IdempotencyKey, plan: TransactionPlan
) -> TransactionResponse | None:
    """The first response to a repeated request."""
    try:
        pushes = [each for each in plan.operations if isinstance(each, Push)]
        done = await request.broker.find_transaction(key, pushes)
    except Conflict as error:
        return _failed(request.body, error)
    if done is None:
        return None
    memo = msgspec.msgpack.decode(done.memo, type=_Memo) if done.memo else _Memo(uuid4(), {})
    return _response(request.body, replace(plan, acks=memo.acks), done, memo.transaction_id)


async def _do(
    request: HttpRequest, key: IdempotencyKey | None, plan: TransactionPlan
) -> TransactionResponse:
    body: TransactionBody = request.body
    transaction_id = uuid4()
    if key is not None:
        memo = msgspec.msgpack.encode(_Memo(transaction_id, plan.acks))
        key = msgspec.structs.replace(key, memo=memo)
    request.origins = plan.all_origins
    done = await request.broker.transact(
        plan.operations,
        required_leases=body.required_leases,
        idempotency_key=key,
        producer=request.principal.subject,
    )
    if done.repeated and done.memo:
        transaction_id = msgspec.msgpack.decode(done.memo, type=_Memo).transaction_id
    return _response(body, plan, done, transaction_id)


def _response(
    body: TransactionBody, plan: TransactionPlan, done: Transaction, transaction_id: UUID
) -> TransactionResponse:
    return TransactionResponse(
        transaction_id=transaction_id,
        success=True,
        results=_results(body.operations, plan, done),
        repeated=done.repeated,
    )


def _results(
    operations: Sequence[WireOperation], plan: TransactionPlan, done: Transaction
) -> list[OperationResult]:
    results: list[OperationResult] = []
    dead = [frozenset(each.given_up) for each in done.settlements]
    for index, operation in enumerate(operations):
        if isinstance(operation, PushOperation):
            for _, queue, push, number in plan.pushes.get(index, ()):
                results.append(_pushed(len(results), queue, done.receipts[push][number]))
        elif isinstance(operation, ExtendOperation):
            results.append(OperationResult(index=len(results), type="extend", success=True))
        else:
            results.append(_acked(len(results), operation, plan.acks.get(index), done, dead))
    return results


def _pushed(index: int, queue: str, receipt: Receipt) -> OperationResult:
    return OperationResult(
        index=index,
        type="push",
        success=True,
        transaction_id=receipt.transaction_id,
        message_id=receipt.id,
        partition_id=partition_id(receipt.partition_number),
        offset=receipt.offset,
        queue_name=queue,
        status="duplicate" if receipt.duplicate else "queued",
    )


def _acked(
    index: int,
    operation: AckOperation | SettleOperation,
    ack: tuple[int, tuple[int, Offset] | None] | None,
    done: Transaction,
    dead: Sequence[frozenset[tuple[int, Offset]]],
) -> OperationResult:
    # Records of older versions do not contain the outcome of each ack.
    which, message = ack or (0, None)
    settlement = done.settlements[which] if ack and done.settlements else None
    settles = isinstance(operation, SettleOperation)
    return OperationResult(
        index=index,
        type="settle" if settles else "ack",
        success=True,
        transaction_id=operation.transaction_id if isinstance(operation, AckOperation) else None,
        completed=settlement.completed if settlement else None,
        dlq=message in dead[which] if settlement and message else None,
        settlement=to_settled(settlement) if settles and settlement else None,
    )


def _failed(body: TransactionBody, error: SkepError) -> TransactionResponse:
    if isinstance(error, KeyReused):
        error = KeyReused(body.idempotency_key or "")
    return TransactionResponse(
        transaction_id=uuid4(),
        success=False,
        results=[],
        error=str(error),
        problem=to_problem(error, status_of(error)),
    )


async def _queues(request: HttpRequest) -> Iterable[str]:
    """Every queue that any of the operations affects."""
    body: TransactionBody = request.body
    touched: set[str] = set()
    for index, operation in enumerate(body.operations):
        where = f"operations[{index}]"
        if isinstance(operation, PushOperation):
            touched |= {item.queue for item in items_of(index, operation).values()}
        elif isinstance(operation, AckOperation):
            touched |= await queues_of(request.broker, [operation], f"{where}.partition_id")
        else:
            lease_id = check_lease_id(f"{where}.leaseId", operation.lease_id)
            touched |= await queues_of_lease(request, lease_id)
        if isinstance(operation, SettleOperation):
            named = operation.verdicts or ()
            touched |= await queues_of(request.broker, named, where + ".verdicts[{}].partition_id")
    for lease in body.required_leases:
        touched |= await queues_of_lease(request, check_lease_id("requiredLeases", lease))
    return touched


def _check_permissions(request: HttpRequest) -> None:
    """A transaction needs the permissions of each of its operations."""
    for operation in request.body.operations:
        pushes = isinstance(operation, PushOperation)
        request.principal.check(Permission.PUSH if pushes else Permission.POP)


ROUTES = (
    Route(
        method="POST",
        path=paths.TRANSACTION,
        handler=transact,
        needs=Permission.SOME,
        queues=_queues,
        summary="Push, acknowledge and extend, all or nothing.",
        body=TransactionBody,
        body_bytes=ANY_SIZE,
        response=TransactionResponse,
    ),
)
