"""``POST /api/v1/push``"""

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec.structs import replace

from skep.errors import Invalid, OutcomeUnknown
from skep.model.address import message_text, message_texts, partition_of, partition_text
from skep.model.message import Draft, Receipt, Receipts
from skep.model.name import DEFAULT_PARTITION
from skep.wire.body import LIST, Body, Id
from skep.wire.payload import Encoding, empty, from_wire, to_wire


class PushItem(Body, frozen=True, kw_only=True):
    """A message to push. ``producerSub`` in a body is ignored: the server sets the producer."""

    queue: str
    partition: str = DEFAULT_PARTITION
    payload: msgspec.Raw = msgspec.field(default_factory=empty)
    encoding: Encoding = "json"
    transaction_id: str | None = None
    trace_id: UUID | None = None


class PushBody(Body, frozen=True, kw_only=True):
    items: Annotated[list[PushItem], LIST]


class Pushed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The result of an item; a duplicate has the ``message_id`` of the first one."""

    index: int
    transaction_id: str
    status: str
    message_id: Id
    partition_id: Id
    trace_id: UUID | None
    offset: int
    queue: str = msgspec.field(name="queueName")


class Buffered(Body, frozen=True, kw_only=True):
    """An item that was buffered because of push maintenance."""

    index: int
    status: str = "buffered"
    queue: str
    partition: str
    transaction_id: str


class PushResult(msgspec.Struct, frozen=True, gc=False):
    """What a client decodes of either: the position of the item, or that it has none yet."""

    status: str
    # A string, because most are equal: only one of those becomes a UUID.
    partition_id: str | None = None
    offset: int = -1


def to_draft(field: str, item: PushItem, *, most: int) -> Draft:
    """The draft in an item; ``field`` names its payload in errors."""
    return Draft(
        from_wire(field, item.payload, item.encoding, most=most),
        item.partition,
        item.transaction_id,
        item.trace_id,
    )


def to_drafts(items: Sequence[PushItem], *, most: int) -> list[Draft]:
    """The drafts in items; the name of a field is only built for an error."""
    drafts: list[Draft] = []
    try:
        drafts.extend(to_draft("payload", item, most=most) for item in items)
    except Invalid as error:
        raise error.within("items", len(drafts)) from None
    return drafts


def to_push_response(
    queue: str, items: Sequence[PushItem], receipts: Sequence[Receipt]
) -> list[Pushed]:
    if isinstance(receipts, Receipts):
        return _to_response_for_one_partition(queue, items, receipts)
    return [
        to_pushed(index, queue, item, receipt)
        for index, (item, receipt) in enumerate(zip(items, receipts, strict=True))
    ]


def _to_response_for_one_partition(
    queue: str, items: Sequence[PushItem], receipts: Receipts
) -> list[Pushed]:
    """The same for one partition, without a receipt per message: half the time."""
    places = receipts.places
    partition, duplicates = partition_text(places.partition), places.duplicates
    texts = message_texts(places.partition, places.offsets)
    return [
        Pushed(
            index=index,
            transaction_id=chosen or text,
            status="duplicate" if index in duplicates else "queued",
            message_id=text,
            partition_id=partition,
            trace_id=item.trace_id,
            offset=offset,
            queue=queue,
        )
        for index, (item, chosen, offset, text) in enumerate(
            zip(items, receipts.ids, places.offsets, texts, strict=True)
        )
    ]


def to_pushed(index: int, queue: str, item: PushItem, receipt: Receipt) -> Pushed:
    message_id = message_text(receipt.partition_number, receipt.offset)
    return Pushed(
        index=index,
        transaction_id=receipt.chosen_id or message_id,
        status="duplicate" if receipt.duplicate else "queued",
        message_id=message_id,
        partition_id=partition_text(receipt.partition_number),
        trace_id=item.trace_id,
        offset=receipt.offset,
        queue=queue,
    )


def check_drafts(drafts: Sequence[Draft]) -> Sequence[Draft]:
    """The drafts, checked."""
    if isinstance(drafts, str | bytes) or not isinstance(drafts, Sequence) or not drafts:
        raise Invalid("drafts", "must be a sequence that is not empty")
    for index, draft in enumerate(drafts):
        check_draft(f"drafts[{index}]", draft)
    return drafts


def check_draft(where: str, draft: Draft) -> None:
    if not isinstance(draft, Draft):
        raise Invalid(where, f"must be a Draft, not {type(draft).__name__}")
    if type(draft.payload) is not bytes:
        raise Invalid(f"{where}.payload", f"must be bytes, not {type(draft.payload).__name__}")


def from_drafts(queue: str, drafts: Sequence[Draft]) -> list[PushItem]:
    """The items of a body; the drafts must have been checked."""
    return [_item(queue, draft) for draft in drafts]


def _item(queue: str, draft: Draft) -> PushItem:
    payload, encoding = to_wire(draft.payload)
    return PushItem(
        queue=queue,
        partition=draft.partition,
        payload=payload,
        encoding=encoding,
        transaction_id=draft.transaction_id,
        trace_id=draft.trace_id,
    )


def to_receipts(drafts: Sequence[Draft], results: Sequence[PushResult]) -> list[Receipt]:
    """The receipts of drafts that all have a transaction id."""
    if len(results) != len(drafts):
        raise OutcomeUnknown(f"the server returned {len(results)} results for {len(drafts)} drafts")
    numbers = {
        place: -1 if place is None else partition_of(UUID(place))
        for place in {result.partition_id for result in results}
    }
    return [
        Receipt(
            draft.partition,
            numbers[result.partition_id],
            result.offset,
            result.status == "duplicate",
            draft.transaction_id,
        )
        for draft, result in zip(drafts, results, strict=True)
    ]


def to_receipts_of_repetition(receipts: Sequence[Receipt]) -> list[Receipt]:
    """The receipts of the first attempt, whose response was lost.

    A push is stored completely or not at all. If all messages are duplicates, the first attempt
    stored them; otherwise it stored nothing, and the duplicates are of another producer.
    """
    if not all(receipt.duplicate for receipt in receipts):
        return list(receipts)
    first: dict[tuple[str, str | None], int] = {}
    for index, receipt in enumerate(receipts):
        first.setdefault((receipt.partition, receipt.chosen_id), index)
    return [
        replace(receipt, duplicate=first[receipt.partition, receipt.chosen_id] != index)
        for index, receipt in enumerate(receipts)
    ]
