"""Transactions: pushes, acks and extensions together or not at all."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from skep.core.broker import Broker
from skep.errors import (
    Conflict,
    Invalid,
    LeaseLost,
    MessageNotFound,
    NotFound,
    SkepError,
    Unavailable,
)
from skep.http.access import Permission
from skep.http.call import Call, Reply
from skep.http.problems import status_of
from skep.http.routes.ack import queues_of
from skep.http.routing import Route
from skep.model.address import partition_id, partition_of
from skep.model.message import Receipt
from skep.model.names import LeaseId, Offset, check_lease_id
from skep.model.operation import Ack, Extend, Operation, Push, Transaction, Verdict
from skep.wire.ack import STATUS, to_settled, to_verdicts
from skep.wire.problem import to_problem
from skep.wire.push import PushItem, to_draft
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
        plan = await _plan(call.broker, body)
        done = await call.broker.transact(
            plan.operations,
            required_leases=body.required_leases,
            idempotency_key=body.idempotency_key,
            producer=call.principal.subject,
        )
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


@dataclass(slots=True)
class _Plan:
    """Operations of the broker, and which of the wire's went into each."""

    operations: list[Operation] = field(default_factory=list)
    pushes: dict[int, list[tuple[str, PushItem, int, int]]] = field(default_factory=dict)
    """Per operation of the wire its items: queue, item, which push, which receipt of it."""
    acks: dict[int, tuple[int, tuple[int, Offset] | None]] = field(default_factory=dict)
    """Per operation of the wire: which ack, and the message if it is about one."""


async def _plan(broker: Broker, body: TransactionBody) -> _Plan:
    plan = _Plan()
    _plan_pushes(plan, body.operations)
    await _plan_acks(plan, broker, body)
    plan.operations += (
        Extend(operation.lease_id, operation.seconds)
        for operation in body.operations
        if isinstance(operation, ExtendOperation)
    )
    return plan


def _plan_pushes(plan: _Plan, operations: Sequence[WireOperation]) -> None:
    """Pushes to one queue become one push: so an id that comes twice is one message."""
    drafts: dict[str, list[PushItem]] = {}
    for index, operation in enumerate(operations):
        if isinstance(operation, PushOperation):
            places = plan.pushes[index] = []
            for item in items_of(index, operation):
                some = drafts.setdefault(item.queue, [])
                places.append((item.queue, item, list(drafts).index(item.queue), len(some)))
                some.append(item)
    for queue, items in drafts.items():
        made = [to_draft(number, item, queue) for number, item in enumerate(items)]
        plan.operations.append(Push(queue, made))


def items_of(index: int, operation: PushOperation) -> list[PushItem]:
    if operation.items is not None:
        return operation.items
    if operation.queue is None:
        raise Invalid(f"operations[{index}].items", "is required")
    return [
        PushItem(
            queue=operation.queue,
            partition=operation.partition,
            payload=operation.payload,
            encoding=operation.encoding,
            transaction_id=operation.transaction_id,
            trace_id=operation.trace_id,
        )
    ]


async def _plan_acks(plan: _Plan, broker: Broker, body: TransactionBody) -> None:
    """Acks under one lease become one ack: what failed is judged with what was completed."""
    verdicts: dict[LeaseId, list[Verdict]] = {}
    made: list[Ack] = []
    for index, operation in enumerate(body.operations):
        if isinstance(operation, AckOperation):
            lease_id = _lease_of(broker, operation, body.required_leases)
            place = await _place(broker, lease_id, operation)
            if lease_id not in verdicts:
                verdicts[lease_id] = []
                made.append(Ack(lease_id, verdicts[lease_id]))
            verdicts[lease_id].append(
                Verdict(*place, STATUS[operation.status], operation.error or "")
            )
            plan.acks[index] = list(verdicts).index(lease_id), place
    for index, operation in enumerate(body.operations):
        if isinstance(operation, SettleOperation):
            some = None if operation.verdicts is None else to_verdicts(operation.verdicts)
            plan.acks[index] = len(made), None
            made.append(Ack(operation.lease_id, some))
    plan.operations += made


def _lease_of(broker: Broker, operation: AckOperation, required: Sequence[str]) -> LeaseId:
    """The lease that the ack is under: never none, or a late ack could not be told."""
    if operation.lease_id:
        return check_lease_id("leaseId", operation.lease_id)
    leases = [check_lease_id("requiredLeases", lease) for lease in required]
    held = broker.addresses.lease_on(partition_of(operation.partition_id), leases)
    if held is None and len(leases) != 1:
        raise LeaseLost(", ".join(leases) or "that was not named")
    return held or leases[0]


async def _place(broker: Broker, lease_id: LeaseId, operation: AckOperation) -> tuple[int, Offset]:
    number = partition_of(operation.partition_id)
    (offset,) = await broker.addresses.offsets(lease_id, number, [operation.transaction_id])
    if offset is None:
        raise MessageNotFound(operation.transaction_id)
    return number, offset


def _results(
    operations: Sequence[WireOperation], plan: _Plan, done: Transaction
) -> list[OperationResult]:
    results: list[OperationResult] = []
    for index, operation in enumerate(operations):
        if isinstance(operation, PushOperation):
            for queue, _, push, number in plan.pushes[index]:
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
    touched = queues_of(
        call.broker, [each for each in body.operations if isinstance(each, AckOperation)]
    )
    for index, operation in enumerate(body.operations):
        if isinstance(operation, PushOperation):
            touched |= {item.queue for item in items_of(index, operation)}
        elif isinstance(operation, SettleOperation | ExtendOperation):
            touched |= addresses.queues_of_lease(check_lease_id("leaseId", operation.lease_id))
        if isinstance(operation, SettleOperation):
            touched |= queues_of(call.broker, operation.verdicts or ())
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
