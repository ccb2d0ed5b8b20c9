"""``POST /api/v1/transaction``"""

from typing import Any
from uuid import UUID

import msgspec

from skep.model.names import DEFAULT_PARTITION
from skep.wire.ack import WireStatus, WireVerdict
from skep.wire.body import Body
from skep.wire.payload import Encoding, empty
from skep.wire.push import PushItem


class PushOperation(Body, frozen=True, kw_only=True, tag_field="type", tag="push"):
    """Messages to push: as ``items``, or one of them in place."""

    items: list[PushItem] | None = None
    queue: str | None = None
    partition: str = DEFAULT_PARTITION
    payload: msgspec.Raw = msgspec.field(default_factory=empty)
    encoding: Encoding = "json"
    transaction_id: str | None = None
    trace_id: UUID | None = None


class AckOperation(Body, frozen=True, kw_only=True, tag_field="type", tag="ack"):
    """What became of a message. Without ``leaseId``, one of the required leases must hold it."""

    transaction_id: str
    partition_id: UUID
    status: WireStatus = "completed"
    error: str | None = None
    lease_id: str | None = None
    consumer_group: str | None = None


class SettleOperation(Body, frozen=True, kw_only=True, tag_field="type", tag="settle"):
    """Verdicts on messages of a lease; without any, all that it holds is completed."""

    lease_id: str
    verdicts: list[WireVerdict] | None = None


class ExtendOperation(Body, frozen=True, kw_only=True, tag_field="type", tag="extend"):
    lease_id: str
    seconds: int = 60


WireOperation = PushOperation | AckOperation | SettleOperation | ExtendOperation


class TransactionBody(Body, frozen=True, kw_only=True):
    """Operations that happen together or not at all, while all required leases live.

    With an ``idempotencyKey`` a repetition changes nothing and gets the first answer, for a day.
    """

    operations: list[WireOperation]
    required_leases: tuple[str, ...] = ()
    idempotency_key: str | None = None


class OperationResult(Body, frozen=True, kw_only=True, omit_defaults=True):
    """One per message pushed, and one per other operation, in their order."""

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


class TransactionAnswer(Body, frozen=True, kw_only=True, omit_defaults=True):
    """``success`` is false if nothing was done; ``error`` says why, ``problem`` for programs."""

    transaction_id: UUID
    success: bool
    results: list[OperationResult]
    repeated: bool = False
    error: str | None = None
    problem: dict[str, Any] | None = None
