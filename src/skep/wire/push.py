"""``POST /api/v1/push``"""

from collections.abc import Sequence
from uuid import UUID

import msgspec

from skep.model.address import message_text, partition_text
from skep.model.message import Draft, Receipt
from skep.model.names import DEFAULT_PARTITION
from skep.wire.body import Body, Id
from skep.wire.payload import Encoding, empty, from_wire


class PushItem(Body, frozen=True, kw_only=True):
    """A message to push. A body's ``producerSub`` is ignored: the server knows who pushes."""

    queue: str
    partition: str = DEFAULT_PARTITION
    payload: msgspec.Raw = msgspec.field(default_factory=empty)
    encoding: Encoding = "json"
    transaction_id: str | None = None
    trace_id: UUID | None = None


class PushBody(Body, frozen=True, kw_only=True):
    items: list[PushItem]


class Pushed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What became of an item; ``message_id`` of a duplicate is that of the first one."""

    index: int
    transaction_id: str
    status: str
    message_id: Id
    partition_id: Id
    trace_id: UUID | None
    offset: int
    queue: str = msgspec.field(name="queueName")


class Buffered(Body, frozen=True, kw_only=True):
    """An item that was kept aside, because pushing is in maintenance."""

    index: int
    status: str = "buffered"
    queue: str
    partition: str
    transaction_id: str


def to_draft(index: int, item: PushItem, name: str = "items") -> Draft:
    return Draft(
        from_wire(f"{name}[{index}].payload", item.payload, item.encoding),
        item.partition,
        item.transaction_id,
        item.trace_id,
    )


def to_answer(queue: str, items: Sequence[PushItem], receipts: Sequence[Receipt]) -> list[Pushed]:
    return [
        to_pushed(index, queue, item, receipt)
        for index, (item, receipt) in enumerate(zip(items, receipts, strict=True))
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
