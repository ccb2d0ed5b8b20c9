"""``/api/v1/dlq``: list, replay and delete dead letters."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from skep.errors import Forbidden, Invalid
from skep.model.address import address_of, partition_id
from skep.model.dead_letter import FailedMessage
from skep.model.message import Receipt
from skep.model.name import MAX_NUMBER
from skep.wire.body import Body
from skep.wire.pagination import Limit, Pagination, Skip
from skep.wire.payload import Encoding, to_payload, to_wire

Number = Annotated[int, msgspec.Meta(ge=0, le=MAX_NUMBER)]
MAX_NUMBERS = 1000


class DeadLettersQuery(Body, frozen=True, kw_only=True):
    """``before`` is the ``next`` of the previous page; the cost does not depend on the position."""

    queue: str | None = None
    consumer_group: str | None = None
    partition: str | None = None
    from_: datetime | None = msgspec.field(default=None, name="from")
    to: datetime | None = None
    before: Number | None = None
    limit: Limit = 100
    offset: Skip = 0


class WireDeadLetter(Body, frozen=True, kw_only=True):
    """A message that a group dead-lettered. ``data``, and ``errorMessage``, which may quote it,
    need the permission to read payloads."""

    number: int
    id: UUID
    transaction_id: str
    partition_id: UUID
    queue: str
    partition: str
    offset: int
    consumer_group: str
    error_message: str | None
    attempts: int
    retry_count: int
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    encoding: Encoding | msgspec.UnsetType = msgspec.UNSET
    trace_id: UUID | None
    producer_sub: str | None
    created_at: datetime
    failed_at: datetime


class DeadLettersResponse(Body, frozen=True, kw_only=True):
    """Newest first; ``total`` counts the dead letters of all pages."""

    messages: list[WireDeadLetter]
    total: int
    next: int | None
    pagination: Pagination


class DeadLetterSelection(Body, frozen=True, kw_only=True):
    """Dead letters of a queue: by number, those of a group or a partition, or all."""

    numbers: Annotated[list[Number], msgspec.Meta(max_length=MAX_NUMBERS)] | None = None
    consumer_group: str | None = None
    partition: str | None = None
    all: bool = False


class DeadLetterSelectionQuery(Body, frozen=True, kw_only=True):
    """Like the body of a replay; ``numbers`` are separated by commas."""

    numbers: str | None = None
    consumer_group: str | None = None
    partition: str | None = None
    all: bool = False


class ReplayedMessage(Body, frozen=True, kw_only=True):
    """The position of a replayed message: at the end of its partition."""

    message_id: UUID
    partition: str
    transaction_id: str


class Replayed(Body, frozen=True, kw_only=True):
    """``messages`` is filled if the dead letters were selected by number, in that order."""

    success: bool = True
    queue: str
    replayed: int
    messages: list[ReplayedMessage] = msgspec.field(default_factory=list)


class DeletedDeadLetters(Body, frozen=True, kw_only=True):
    success: bool = True
    queue: str
    deleted: int


def to_wire_dead_letter(letter: FailedMessage, *, with_data: bool) -> WireDeadLetter:
    data, encoding = to_wire(letter.payload) if with_data else (msgspec.UNSET, msgspec.UNSET)
    return WireDeadLetter(
        number=letter.number,
        id=letter.message_id,
        transaction_id=letter.transaction_id,
        partition_id=partition_id(address_of(letter.message_id)[0]),
        queue=letter.queue,
        partition=letter.partition,
        offset=letter.offset,
        consumer_group=letter.group,
        error_message=letter.error if with_data else None,
        attempts=letter.attempts,
        retry_count=max(0, letter.attempts - 1),
        data=data,
        encoding=encoding,
        trace_id=letter.trace_id,
        producer_sub=letter.producer,
        created_at=letter.created_at,
        failed_at=letter.failed_at,
    )


def to_failed_message(letter: WireDeadLetter) -> FailedMessage:
    if (
        isinstance(letter.data, msgspec.UnsetType)
        or isinstance(letter.encoding, msgspec.UnsetType)
        or letter.error_message is None
    ):
        raise Forbidden("reading payloads needs the permission 'read'")
    return FailedMessage(
        number=letter.number,
        queue=letter.queue,
        partition=letter.partition,
        offset=letter.offset,
        message_id=letter.id,
        transaction_id=letter.transaction_id,
        trace_id=letter.trace_id,
        group=letter.consumer_group,
        error=letter.error_message,
        attempts=letter.attempts,
        payload=to_payload(letter.data, letter.encoding),
        producer=letter.producer_sub,
        created_at=letter.created_at,
        failed_at=letter.failed_at,
    )


def to_replayed(receipt: Receipt) -> ReplayedMessage:
    return ReplayedMessage(
        message_id=receipt.id, partition=receipt.partition, transaction_id=receipt.transaction_id
    )


def to_receipt(letter: ReplayedMessage) -> Receipt:
    place = address_of(letter.message_id)
    return Receipt(letter.partition, *place, False, letter.transaction_id)


def to_selection(query: DeadLetterSelectionQuery) -> DeadLetterSelection:
    return DeadLetterSelection(
        numbers=None if query.numbers is None else _numbers(query.numbers),
        consumer_group=query.consumer_group,
        partition=query.partition,
        all=query.all,
    )


def check_selection(choice: DeadLetterSelection) -> DeadLetterSelection:
    """Reject a selection that is empty, and so might mean everything, or ambiguous."""
    by_filter = bool(choice.consumer_group or choice.partition)
    if choice.numbers is not None and (by_filter or choice.all):
        raise Invalid("numbers", "must not be combined with a filter")
    if choice.numbers is None and not by_filter and not choice.all:
        raise Invalid("numbers", "is required, or consumerGroup, partition, or all")
    return choice


def to_number(field: str, text: str) -> int:
    """The number of a dead letter in a path or a query."""
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or int(text) > MAX_NUMBER:
        raise Invalid(field, f"{text[:64]!r} is not the number of a dead letter")
    return int(text)


def _numbers(text: str) -> list[int]:
    parts: Sequence[str] = [part.strip() for part in text.split(",") if part.strip()]
    if len(parts) > MAX_NUMBERS:
        raise Invalid("numbers", f"must be at most {MAX_NUMBERS}, not {len(parts)}")
    return [to_number("numbers", part) for part in parts]
