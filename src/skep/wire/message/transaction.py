"""``POST /api/v1/transaction``"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any
from uuid import UUID

import msgspec

from skep.errors import Invalid, OutcomeUnknown
from skep.model.address import address_of
from skep.model.message import Draft, Receipt
from skep.model.name import DEFAULT_PARTITION
from skep.model.operation import Ack, Extend, Operation, Push, Settlement, Transaction
from skep.wire.body import LIST, Body
from skep.wire.message.ack import (
    SettleResponse,
    WireStatus,
    WireVerdict,
    from_settled,
    from_verdicts,
)
from skep.wire.message.pop import explicit_transaction_id
from skep.wire.message.push import PushItem, check_drafts, from_drafts
from skep.wire.payload import Encoding, empty


class PushOperation(Body, frozen=True, kw_only=True, tag_field="type", tag="push"):
    """Messages to push: as ``items``, or one message inline."""

    items: Annotated[list[PushItem], LIST] | None = None
    queue: str | None = None
    partition: str = DEFAULT_PARTITION
    payload: msgspec.Raw = msgspec.field(default_factory=empty)
    encoding: Encoding = "json"
    transaction_id: str | None = None
    trace_id: UUID | None = None


class AckOperation(Body, frozen=True, kw_only=True, tag_field="type", tag="ack"):
    """The outcome of a message. Without ``leaseId``, one of the required leases must hold it."""

    transaction_id: str
    partition_id: UUID
    status: WireStatus = "completed"
    error: str | None = None
    lease_id: str | None = None
    consumer_group: str | None = None


class SettleOperation(Body, frozen=True, kw_only=True, tag_field="type", tag="settle"):
    """Verdicts on messages of a lease; without any, all its messages are completed."""

    lease_id: str
    verdicts: Annotated[list[WireVerdict], LIST] | None = None


class ExtendOperation(Body, frozen=True, kw_only=True, tag_field="type", tag="extend"):
    lease_id: str
    seconds: int = 60


WireOperation = PushOperation | AckOperation | SettleOperation | ExtendOperation


class TransactionBody(Body, frozen=True, kw_only=True):
    """Operations that are applied together or not at all, while all required leases are live.

    With an ``idempotencyKey``, a repeated request changes nothing and gets the first response, for
    a day.
    """

    operations: Annotated[list[WireOperation], LIST]
    required_leases: Annotated[tuple[str, ...], msgspec.Meta(max_length=100)] = ()
    idempotency_key: str | None = None


class OperationResult(Body, frozen=True, kw_only=True, omit_defaults=True):
    """One per pushed message, and one per other operation, in order."""

    index: int
    type: str
    success: bool
    transaction_id: str | None = None
    message_id: UUID | None = None
    partition_id: UUID | None = None
    offset: int | None = None
    queue_name: str | None = None
    status: str | None = None
    completed: int | None = None
    dlq: bool | None = None
    settlement: SettleResponse | None = None
    """The result of a settle operation; absent in the response to a repeated request."""


class TransactionResponse(Body, frozen=True, kw_only=True, omit_defaults=True):
    """``success`` is false if nothing was written; ``error`` is the reason, ``problem`` the same
    for programs."""

    transaction_id: UUID
    success: bool
    results: list[OperationResult]
    repeated: bool = False
    error: str | None = None
    problem: dict[str, Any] | None = None


def from_operations(operations: Sequence[Operation]) -> list[WireOperation]:
    if not isinstance(operations, Sequence) or not operations:
        raise Invalid("operations", "must be a sequence that is not empty")
    made: list[WireOperation] = []
    for index, operation in enumerate(operations):
        if not isinstance(operation, Push | Ack | Extend):
            raise Invalid(
                f"operations[{index}]",
                f"must be Push, Ack or Extend, not {type(operation).__name__}",
            )
        try:
            made.append(_wire_operation(operation))
        except Invalid as error:
            raise error.within("operations", index) from None
    return made


def _wire_operation(operation: Push | Ack | Extend) -> WireOperation:
    if isinstance(operation, Push):
        return PushOperation(items=from_drafts(operation.queue, check_drafts(operation.drafts)))
    if isinstance(operation, Ack):
        verdicts = None if operation.verdicts is None else from_verdicts(operation.verdicts)
        return SettleOperation(lease_id=operation.lease_id, verdicts=verdicts)
    return ExtendOperation(lease_id=operation.lease_id, seconds=operation.seconds)


def to_transaction(operations: Sequence[Operation], answer: TransactionResponse) -> Transaction:
    results = iter(answer.results)
    receipts: list[Sequence[Receipt]] = []
    settlements: list[Settlement] = []
    try:
        for operation in operations:
            if isinstance(operation, Push):
                receipts.append([_receipt(draft, results) for draft in operation.drafts])
            else:
                settled = next(results).settlement
                if settled is not None:
                    settlements.append(from_settled(settled))
    except StopIteration:
        raise OutcomeUnknown("the server did not return a result for every operation") from None
    return Transaction(receipts=receipts, settlements=settlements, repeated=answer.repeated)


def _receipt(draft: Draft, results: Iterator[OperationResult]) -> Receipt:
    result = next(results)
    if result.message_id is None:
        raise OutcomeUnknown("the server did not return the id of a message")
    return Receipt(
        draft.partition,
        *address_of(result.message_id),
        result.status == "duplicate",
        explicit_transaction_id(result.transaction_id or "", result.message_id),
    )
