"""A transaction of the API as operations of the broker, and where each came from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from skep.core.aio import yielding
from skep.core.broker import Broker
from skep.errors import FieldPath, Invalid, LeaseLost, MessageNotFound
from skep.model.message import Draft
from skep.model.name import LeaseId, Offset, check_lease_id
from skep.model.operation import Ack, Extend, Operation, Push, Verdict
from skep.wire.body import MAX_ELEMENTS
from skep.wire.field_path import Origins
from skep.wire.message.ack import STATUS, to_numbers, to_verdicts
from skep.wire.message.push import PushItem, to_draft
from skep.wire.message.transaction import (
    AckOperation,
    ExtendOperation,
    PushOperation,
    SettleOperation,
    TransactionBody,
    WireOperation,
)


@dataclass(slots=True)
class TransactionPlan:
    """Operations of the broker, and the operations of the request that each was made from."""

    operations: list[Operation] = field(default_factory=list)
    pushes: dict[int, list[tuple[FieldPath, str, int, int]]] = field(default_factory=dict)
    """By operation of the request, its items: path, queue, number of push and of draft."""
    acks: dict[int, tuple[int, tuple[int, Offset] | None]] = field(default_factory=dict)
    """By operation of the request: the number of the ack, and the message if it names one."""
    origins: dict[FieldPath, FieldPath] = field(default_factory=dict)
    """Where in the request acks and extensions came from."""

    def all_origins(self) -> Origins:
        """Where in the request each of the broker's operations came from."""
        origins = dict(self.origins)
        for items in self.pushes.values():
            for where, _, push, draft in items:
                operation = ("operations", push)
                origins[*operation, "drafts", draft] = where
                origins.setdefault((*operation, "queue"), (*where, "queue"))
                origins.setdefault((*operation, "drafts"), where[:-1])
        return origins


async def plan_pushes(operations: Sequence[WireOperation], *, most: int) -> TransactionPlan:
    """The pushes, one per queue: so an id that occurs twice is one message."""
    plan = TransactionPlan()
    drafts: dict[str, list[Draft]] = {}
    numbers: dict[str, int] = {}
    async for index, where, item in yielding(_items(operations)):
        queue_drafts = drafts.setdefault(item.queue, [])
        number = numbers.setdefault(item.queue, len(numbers))
        plan.pushes.setdefault(index, []).append((where, item.queue, number, len(queue_drafts)))
        try:
            queue_drafts.append(to_draft("payload", item, most=most))
        except Invalid as error:
            raise error.within(*where) from None
    plan.operations += (Push(queue, queue_drafts) for queue, queue_drafts in drafts.items())
    return plan


def _items(operations: Sequence[WireOperation]) -> Iterator[tuple[int, FieldPath, PushItem]]:
    """All messages to push: the number of their operation, and their path."""
    count = 0
    for index, operation in enumerate(operations):
        if isinstance(operation, PushOperation):
            for where, item in items_of(index, operation).items():
                count += 1
                if count > MAX_ELEMENTS:
                    raise Invalid("operations", f"must push at most {MAX_ELEMENTS} messages")
                yield index, where, item


async def add_acks(plan: TransactionPlan, broker: Broker, body: TransactionBody) -> TransactionPlan:
    """The plan with the acks and extensions."""
    await _plan_acks(plan, broker, body)
    for index, operation in enumerate(body.operations):
        if isinstance(operation, ExtendOperation):
            plan.origins["operations", len(plan.operations)] = ("operations", index)
            plan.operations.append(Extend(operation.lease_id, operation.seconds))
    return plan


def items_of(index: int, operation: PushOperation) -> dict[FieldPath, PushItem]:
    """The items of an operation by their paths: in a list, or in place of one."""
    if operation.items is not None:
        items = enumerate(operation.items)
        return {("operations", index, "items", number): item for number, item in items}
    if operation.queue is None:
        raise Invalid(f"operations[{index}].items", "is required")
    item = PushItem(
        queue=operation.queue,
        partition=operation.partition,
        payload=operation.payload,
        encoding=operation.encoding,
        transaction_id=operation.transaction_id,
        trace_id=operation.trace_id,
    )
    return {("operations", index): item}


async def _plan_acks(plan: TransactionPlan, broker: Broker, body: TransactionBody) -> None:
    """Acks under one lease become one ack: failed messages are settled with completed ones."""
    verdicts: dict[LeaseId, list[Verdict]] = {}
    made: list[Ack] = []
    numbers: dict[LeaseId, int] = {}
    pushes = len(plan.operations)
    async for index, (lease_id, *place) in yielding((await _find(broker, body)).items()):
        operation = body.operations[index]
        assert isinstance(operation, AckOperation)
        if lease_id not in verdicts:
            verdicts[lease_id] = []
            numbers[lease_id] = len(made)
            made.append(Ack(lease_id, verdicts[lease_id]))
        which, made_verdicts = numbers[lease_id], verdicts[lease_id]
        ack = ("operations", pushes + which, "verdicts", len(made_verdicts))
        plan.origins[ack] = ("operations", index)
        # The request names the message by its transaction id, not by its offset.
        plan.origins[*ack, "offset"] = ("operations", index, "transactionId")
        number, offset = place
        made_verdicts.append(
            Verdict(number, offset, STATUS[operation.status], operation.error or "")
        )
        plan.acks[index] = which, (number, offset)
    for index, operation in enumerate(body.operations):
        if isinstance(operation, SettleOperation):
            plan.origins["operations", pushes + len(made)] = ("operations", index)
            plan.acks[index] = len(made), None
            made.append(Ack(operation.lease_id, _verdicts(index, operation)))
    plan.operations += made


async def _find(broker: Broker, body: TransactionBody) -> dict[int, tuple[LeaseId, int, Offset]]:
    """The lease, partition and offset of the message that each ack operation names.

    The messages of a lease in a partition are looked up together.
    """
    required = [check_lease_id("requiredLeases", lease) for lease in body.required_leases]
    acks: dict[tuple[LeaseId, int], dict[int, str]] = {}
    async for index, operation in yielding(enumerate(body.operations)):
        if isinstance(operation, AckOperation):
            (number,) = to_numbers([operation], f"operations[{index}].partition_id")
            lease_id = await _lease_of(broker, index, number, operation, required)
            acks.setdefault((lease_id, number), {})[index] = operation.transaction_id
    located: dict[int, tuple[LeaseId, int, Offset]] = {}
    async for (lease_id, number), ids in yielding(acks.items()):
        offsets = await broker.held_messages.offsets(lease_id, number, list(ids.values()))
        for (index, transaction_id), offset in zip(ids.items(), offsets, strict=True):
            if offset is None:
                raise MessageNotFound(transaction_id)
            located[index] = lease_id, number, offset
    return dict(sorted(located.items()))


def _verdicts(index: int, operation: SettleOperation) -> list[Verdict] | None:
    try:
        return None if operation.verdicts is None else to_verdicts(operation.verdicts)
    except Invalid as error:
        raise error.within("operations", index) from None


async def _lease_of(
    broker: Broker,
    index: int,
    partition: int,
    operation: AckOperation,
    leases: Sequence[LeaseId],
) -> LeaseId:
    """The lease of an ack: without one, a late ack could not be detected."""
    if operation.lease_id:
        return check_lease_id(f"operations[{index}].leaseId", operation.lease_id)
    held = await broker.held_messages.lease_on(partition, leases)
    if held is None and len(leases) != 1:
        raise LeaseLost(", ".join(leases) or "that was not named")
    return held or leases[0]
