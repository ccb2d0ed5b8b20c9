"""``GET /api/v1/pop``."""

from datetime import datetime
from uuid import UUID

import msgspec

from skep.model.address import message_text, partition_of, partition_text
from skep.model.message import Delivery, Message
from skep.model.name import LeaseId
from skep.model.pop_request import PopRequest
from skep.wire.body import Body, Id
from skep.wire.payload import Encoding, to_payload, to_wire

MAX_TIMEOUT = 3_600_000


class PopQuery(Body, frozen=True, kw_only=True):
    """``timeout`` is in milliseconds and applies with ``wait`` only."""

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
    """A delivered message. ``data`` is its payload; in base64 if it is not JSON."""

    id: Id
    transaction_id: str
    trace_id: UUID | None
    data: msgspec.Raw
    encoding: Encoding
    producer_sub: str | None
    created_at: datetime
    queue: str
    partition: str
    partition_id: Id
    offset: int
    delivery_attempt: int
    retry_count: int
    lease_id: str
    consumer_group: str


class PopResponse(Body, frozen=True, kw_only=True):
    """``partition`` and ``partitionId`` are those of the first message."""

    success: bool = True
    queue: str
    partition: str
    partition_id: Id
    lease_id: str
    lease_expires_at: datetime | None
    lease_seconds: int | None
    consumer_group: str
    partitions_claimed: int
    truncated: int
    messages: list[Popped]


class PausedResponse(Body, frozen=True, kw_only=True):
    """The response to a pop during pop maintenance."""

    messages: tuple[Popped, ...] = ()
    paused: bool = True


class Delivered(Body, frozen=True, kw_only=True):
    """What a client decodes: a delivery, or nothing during pop maintenance."""

    lease_id: str = ""
    lease_expires_at: datetime | None = None
    lease_seconds: int | None = None
    consumer_group: str = ""
    truncated: int = 0
    messages: tuple[Popped, ...] = ()


def to_query(request: PopRequest) -> dict[str, str]:
    parameters = {
        "consumerGroup": request.group,
        "namespace": request.namespace,
        "task": request.task,
        "batch": request.batch,
        "partitions": request.partitions,
        "leaseSeconds": request.lease_seconds,
        "autoAck": "true" if request.auto_ack else None,
        "wait": "true" if request.wait else None,
        "timeout": round(request.wait * 1000) if request.wait else None,
        "subscriptionMode": request.subscription_mode,
        "subscriptionFrom": request.subscription_from and request.subscription_from.isoformat(),
    }
    return {name: str(value) for name, value in parameters.items() if value is not None}


def to_pop_response(delivery: Delivery) -> PopResponse:
    lease_id = delivery.lease_id or ""
    ids = {number: partition_text(number) for number in partitions_of(delivery)}
    first = delivery.messages[0]
    return PopResponse(
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


def _popped(message: Message, partition: str, lease_id: str, group: str) -> Popped:
    data, encoding = to_wire(message.payload)
    message_id = message_text(message.partition_number, message.offset)
    return Popped(
        id=message_id,
        transaction_id=message.chosen_id or message_id,
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


def to_delivery(delivered: Delivered) -> Delivery | None:
    if not delivered.messages:
        return None
    numbers = {
        partition: partition_of(UUID(partition))
        for partition in {message.partition_id for message in delivered.messages}
    }
    return Delivery(
        group=delivered.consumer_group,
        lease_id=LeaseId(delivered.lease_id) if delivered.lease_id else None,
        expires_at=delivered.lease_expires_at,
        messages=[_message(popped, numbers[popped.partition_id]) for popped in delivered.messages],
        truncated=delivered.truncated,
        lease_seconds=delivered.lease_seconds,
    )


def _message(popped: Popped, partition_number: int) -> Message:
    return Message(
        queue=popped.queue,
        partition=popped.partition,
        partition_number=partition_number,
        offset=popped.offset,
        payload=to_payload(popped.data, popped.encoding),
        chosen_id=explicit_transaction_id(popped.transaction_id, popped.id),
        trace=popped.trace_id.bytes if popped.trace_id else None,
        producer=popped.producer_sub,
        created_at=popped.created_at,
        attempt=popped.delivery_attempt,
    )


def explicit_transaction_id(transaction_id: str, message_id: UUID | str) -> str | None:
    """The transaction id that the producer set; None if it is the message id."""
    # Most differ in length, which is cheaper to compare than to format the message id.
    derived = len(transaction_id) == 36 and transaction_id == str(message_id)
    return None if derived else transaction_id
