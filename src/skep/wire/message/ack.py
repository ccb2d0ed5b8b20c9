"""``POST /api/v1/ack``, ``/ack/batch`` and ``/lease/{id}/extend``"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Literal, Protocol
from uuid import UUID

import msgspec

from skep.errors import Invalid
from skep.model.address import MAX_PARTITION, partition_id, partition_of
from skep.model.name import check_count, check_text
from skep.model.operation import Settlement, Status, Verdict
from skep.wire.body import LIST, Body

WireStatus = Literal["completed", "success", "failed", "retry", "dlq"]
STATUS: dict[WireStatus, Status] = {
    "completed": "completed",
    "success": "completed",
    "failed": "failed",
    "retry": "retry",
    "dlq": "dead_letter",
}
WIRE_STATUS: dict[Status, WireStatus] = {
    "completed": "completed",
    "failed": "failed",
    "retry": "retry",
    "dead_letter": "dlq",
}


class AckItem(Body, frozen=True, kw_only=True):
    """The outcome of one message."""

    transaction_id: str
    partition_id: UUID
    status: WireStatus = "completed"
    error: str | None = None
    lease_id: str | None = None


class AckBody(AckItem, frozen=True, kw_only=True):
    consumer_group: str | None = None


class AckBatchBody(Body, frozen=True, kw_only=True):
    acknowledgments: Annotated[list[AckItem], LIST]
    consumer_group: str | None = None


class Acked(Body, frozen=True, kw_only=True):
    """The result of an acknowledgement. A late one changed nothing: ``success`` is false."""

    index: int
    transaction_id: str
    success: bool
    error: str | None = None
    queue_name: str | None = None
    partition_name: str | None = None
    lease_released: bool = False
    dlq: bool = False


class ExtendBody(Body, frozen=True, kw_only=True):
    seconds: int = 60


class Extended(Body, frozen=True, kw_only=True):
    """An extended lease; the three times are equal, under the names that clients read."""

    lease_id: str
    success: bool = True
    renewed: int = 1
    new_expires_at: datetime
    expires_at: datetime
    lease_expires_at: datetime = msgspec.field(name="lease_expires_at")


class WireVerdict(Body, frozen=True, kw_only=True):
    """The outcome of the message at an offset of a partition."""

    partition_id: UUID
    offset: int
    status: WireStatus
    error: str | None = None


class SettleBody(Body, frozen=True, kw_only=True):
    """``verdicts`` on messages of a lease; without any, ``status`` is required and applies to all
    messages of the lease."""

    verdicts: Annotated[list[WireVerdict], LIST] | None = None
    status: WireStatus | None = None
    error: str | None = None


class DeadMessage(Body, frozen=True, kw_only=True):
    """The partition and offset of a message that became a dead letter."""

    partition_id: UUID
    offset: int


class SettleResponse(Body, frozen=True, kw_only=True):
    """The result of settling. ``retryAt`` is when failed messages are redelivered; ``released`` is
    true if the lease has no messages left."""

    completed: int
    given_up: list[DeadMessage]
    retry_at: datetime | None
    released: bool


class _Placed(Protocol):
    @property
    def partition_id(self) -> UUID: ...


def to_numbers(items: Iterable[_Placed], field: str) -> list[int]:
    """The partition numbers of items; ``field`` names their field in errors, with a placeholder for
    the index."""
    numbers: list[int] = []
    for index, item in enumerate(items):
        try:
            numbers.append(partition_of(item.partition_id))
        except Invalid as error:
            raise Invalid(field.format(index), error.reason) from None
    return numbers


def to_verdicts(verdicts: Sequence[WireVerdict]) -> list[Verdict]:
    numbers = to_numbers(verdicts, "verdicts[{}].partition_id")
    return [
        Verdict(number, each.offset, STATUS[each.status], each.error or "")
        for number, each in zip(numbers, verdicts, strict=True)
    ]


def from_verdicts(verdicts: Sequence[Verdict]) -> list[WireVerdict]:
    if not isinstance(verdicts, Sequence) or not verdicts:
        raise Invalid("verdicts", "must be a sequence that is not empty")
    return [_wire_verdict(index, verdict) for index, verdict in enumerate(verdicts)]


def _wire_verdict(index: int, verdict: Verdict) -> WireVerdict:
    where = f"verdicts[{index}]"
    if not isinstance(verdict, Verdict):
        raise Invalid(where, f"must be a Verdict, not {type(verdict).__name__}")
    if verdict.status not in WIRE_STATUS:
        raise Invalid(f"{where}.status", f"{verdict.status!r} is none of {sorted(WIRE_STATUS)}")
    number = check_count(f"{where}.partition", verdict.partition, most=MAX_PARTITION)
    return WireVerdict(
        partition_id=partition_id(number),
        offset=verdict.offset,
        status=WIRE_STATUS[verdict.status],
        error=verdict.error or None,
    )


def to_settle_body(status: Status, error: str) -> SettleBody:
    """The same verdict for all messages of a lease."""
    if status not in WIRE_STATUS:
        raise Invalid("status", f"{status!r} is none of {sorted(WIRE_STATUS)}")
    return SettleBody(status=WIRE_STATUS[status], error=check_text("error", error) or None)


def to_settled(settlement: Settlement) -> SettleResponse:
    return SettleResponse(
        completed=settlement.completed,
        given_up=[
            DeadMessage(partition_id=partition_id(number), offset=offset)
            for number, offset in settlement.given_up
        ],
        retry_at=settlement.retry_at,
        released=settlement.released,
    )


def from_settled(settled: SettleResponse) -> Settlement:
    return Settlement(
        completed=settled.completed,
        given_up=tuple((partition_of(dead.partition_id), dead.offset) for dead in settled.given_up),
        retry_at=settled.retry_at,
        released=settled.released,
    )
