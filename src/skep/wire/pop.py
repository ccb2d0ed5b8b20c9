"""``GET /api/v1/pop`` and its kin."""

from datetime import datetime
from uuid import UUID

import msgspec

from skep.model.address import partition_id
from skep.model.message import Delivery, Message
from skep.wire.body import Body
from skep.wire.payload import Encoding, to_wire

MAX_TIMEOUT = 3_600_000


class PopQuery(Body, frozen=True, kw_only=True):
    """``timeout`` is in milliseconds and counts with ``wait`` only."""

    batch: int = 1
    partitions: int = 1
    wait: bool = False
    timeout: int = 30_000
    consumer_group: str | None = None
    namespace: str | None = None
    task: str | None = None
    auto_ack: bool = False
    lease_seconds: int | None = None
    subscription_mode: str | None = None
    subscription_from: str | None = None


class Popped(Body, frozen=True, kw_only=True):
    """A message of a delivery. ``data`` is its payload; in base64 if it is not JSON."""

    id: UUID
    transaction_id: str
    trace_id: UUID | None
    data: msgspec.Raw
    encoding: Encoding
    producer_sub: str | None
    created_at: datetime
    queue: str
    partition: str
    partition_id: UUID
    offset: int
    delivery_attempt: int
    retry_count: int
    lease_id: str
    consumer_group: str


class PopAnswer(Body, frozen=True, kw_only=True):
    """``partition`` and ``partitionId`` are those of the first message."""

    success: bool = True
    queue: str
    partition: str
    partition_id: UUID
    lease_id: str
    lease_expires_at: datetime | None
    lease_seconds: int | None
    consumer_group: str
    partitions_claimed: int
    truncated: int
    messages: list[Popped]


class PausedAnswer(Body, frozen=True, kw_only=True):
    """What a pop gets while popping is in maintenance."""

    messages: tuple[Popped, ...] = ()
    paused: bool = True


def to_answer(delivery: Delivery) -> PopAnswer:
    lease_id = delivery.lease_id or ""
    ids = {number: partition_id(number) for number in partitions_of(delivery)}
    first = delivery.messages[0]
    return PopAnswer(
        queue=first.queue,
        partition=first.partition,
        partition_id=ids[first.partition_number],
        lease_id=lease_id,
        lease_expires_at=delivery.expires_at,
        lease_seconds=delivery.lease_seconds,
        consumer_group=delivery.group,
        partitions_claimed=len(ids),
        truncated=delivery.truncated,
        messages=[
            _popped(message, ids[message.partition_number], lease_id, delivery.group)
            for message in delivery.messages
        ],
    )


def partitions_of(delivery: Delivery) -> dict[int, None]:
    return dict.fromkeys(message.partition_number for message in delivery.messages)


def _popped(message: Message, partition: UUID, lease_id: str, group: str) -> Popped:
    data, encoding = to_wire(message.payload)
    message_id = message.id
    return Popped(
        id=message_id,
        transaction_id=message.chosen_id or str(message_id),
        trace_id=message.trace_id,
        data=data,
        encoding=encoding,
        producer_sub=message.producer,
        created_at=message.created_at,
        queue=message.queue,
        partition=message.partition,
        partition_id=partition,
        offset=message.offset,
        delivery_attempt=message.attempt,
        retry_count=max(0, message.attempt - 1),
        lease_id=lease_id,
        consumer_group=group,
    )
