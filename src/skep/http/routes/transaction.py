"""Transactions: pushes, acks and extensions together or not at all."""

from collections.abc import Iterable, Sequence
from uuid import uuid4

from skep.errors import (
    Conflict,
    Invalid,
    NotFound,
    SkepError,
    Unavailable,
)
from skep.http.access import Permission
from skep.http.call import Call, Reply
from skep.http.problems import status_of
from skep.http.routes.ack import queues_of
from skep.http.routes.plan import Plan, items_of, make_plan
from skep.http.routing import Route
from skep.model.address import partition_id
from skep.model.message import Receipt
from skep.model.names import Offset, check_lease_id
from skep.model.operation import Transaction
from skep.wire.ack import to_settled
from skep.wire.problem import to_problem
from skep.wire.transaction import (
    AckOperation,
    ExtendOperation,
    OperationResult,
    PushOperation,
    SettleOperation,
    TransactionAnswer,
    TransactionBody,
    WireOperation,
)


async def transact(call: Call) -> Reply:
    """Do all of it or nothing. What the state forbids is answered, not refused: clients ask so."""
    body: TransactionBody = call.body
    _check_permissions(call)
    check_pushing(call, any(isinstance(each, PushOperation) for each in body.operations))
    try:
        plan = await make_plan(call.broker, body)
        done = await _do(call, plan)
    except (Conflict, NotFound) as error:
        return Reply(_failed(error))
    return Reply(
        TransactionAnswer(
            transaction_id=uuid4(),
            success=True,
            results=_results(body.operations, plan, done),
            repeated=done.repeated,
        )
    )


async def _do(call: Call, plan: Plan) -> Transaction:
    body: TransactionBody = call.body
    try:
        return await call.broker.transact(
            plan.operations,
            required_leases=body.required_leases,
            idempotency_key=body.idempotency_key,
            producer=call.principal.subject,
        )
    except Invalid as error:
        raise error.moved(plan.all_places()) from None


def _results(
    operations: Sequence[WireOperation], plan: Plan, done: Transaction
) -> list[OperationResult]:
    results: list[OperationResult] = []
    for index, operation in enumerate(operations):
        if isinstance(operation, PushOperation):
            for _, queue, push, number in plan.pushes[index]:
                results.append(_pushed(len(results), queue, done.receipts[push][number]))
        elif isinstance(operation, ExtendOperation):
            results.append(OperationResult(index=len(results), type="extend", success=True))
        else:
            results.append(_acked(len(results), operation, plan.acks[index], done))
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
    ack: tuple[int, tuple[int, Offset] | None],
    done: Transaction,
) -> OperationResult:
    which, place = ack
    # A repetition knows that it was done, not what each ack did.
    settlement = done.settlements[which] if done.settlements else None
    settles = isinstance(operation, SettleOperation)
    return OperationResult(
        index=index,
        type="settle" if settles else "ack",
        success=True,
        transaction_id=operation.transaction_id if isinstance(operation, AckOperation) else None,
        completed=settlement.completed if settlement else None,
        dlq=place in settlement.given_up if settlement and place else None,
        settlement=to_settled(settlement) if settles and settlement else None,
    )


def _failed(error: SkepError) -> TransactionAnswer:
    return TransactionAnswer(
        transaction_id=uuid4(),
        success=False,
        results=[],
        error=str(error),
        problem=to_problem(error, status_of(error)),
    )


def _queues(call: Call) -> Iterable[str]:
    """Every queue that any of the operations touches."""
    body: TransactionBody = call.body
    addresses = call.broker.addresses
    touched: set[str] = set()
    for index, operation in enumerate(body.operations):
        where = f"operations[{index}]"
        if isinstance(operation, PushOperation):
            touched |= {item.queue for item in items_of(index, operation).values()}
        elif isinstance(operation, AckOperation):
            touched |= queues_of(call.broker, [operation], f"{where}.partition_id")
        else:
            lease_id = check_lease_id(f"{where}.leaseId", operation.lease_id)
            touched |= addresses.queues_of_lease(lease_id)
        if isinstance(operation, SettleOperation):
            named = operation.verdicts or ()
            touched |= queues_of(call.broker, named, where + ".verdicts[{}].partition_id")
    for lease in body.required_leases:
        touched |= addresses.queues_of_lease(check_lease_id("requiredLeases", lease))
    return touched


def check_pushing(call: Call, pushes: bool) -> None:
    """What is pushed together with something else cannot be laid aside."""
    if pushes and call.broker.maintenance.laying_aside:
        raise Unavailable("pushing is in maintenance; try again later")


def _check_permissions(call: Call) -> None:
    """A transaction needs what each of its operations would need alone."""
    for operation in call.body.operations:
        pushes = isinstance(operation, PushOperation)
        call.principal.check(Permission.PUSH if pushes else Permission.POP)


ROUTES = (
    Route(
        method="POST",
        path="/api/v1/transaction",
        handler=transact,
        needs=Permission.SOME,
        queues=_queues,
        about="Push, acknowledge and extend, all of it or nothing.",
        body=TransactionBody,
        answer=TransactionAnswer,
    ),
)
