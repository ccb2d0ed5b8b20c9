"""``/api/v1/traces``: events that consumers record for messages. Responses are in snake case, as in
Queen."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from skep.model.address import message_id, partition_id, partition_of
from skep.model.message import Message
from skep.model.message_view import TracedMessage
from skep.model.name import MAX_NUMBER, Offset, from_datetime, to_datetime
from skep.model.trace import TraceEvent, TraceName
from skep.wire.body import LIST, Body
from skep.wire.message.message import WireMessage
from skep.wire.message.pop import explicit_transaction_id
from skep.wire.pagination import Limit, Pagination, Skip
from skep.wire.payload import Encoding, to_payload, to_wire

FIELDS = {
    "kind": "eventType",
    "names": "traceNames",
    "worker": "workerId",
    "message_id": "transactionId",
}
"""Names on the wire of arguments of the core."""


class TraceBody(Body, frozen=True, kw_only=True):
    """An event of a message. ``data`` is any JSON, or a base64 string with ``encoding`` base64."""

    transaction_id: str
    partition_id: UUID
    data: msgspec.Raw
    encoding: Encoding = "json"
    event_type: str = "info"
    trace_names: Annotated[list[str], LIST] | None = None
    consumer_group: str | None = None
    worker_id: str | None = None


class TraceEventRecorded(Body, frozen=True, kw_only=True):
    success: bool = True
    trace_id: str
    created_at: datetime


class WireEvent(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    event_type: str
    data: msgspec.Raw
    encoding: Encoding
    consumer_group: str | None
    worker_id: str | None
    created_at: datetime
    trace_names: tuple[str, ...]


class MessageEvents(msgspec.Struct, frozen=True, kw_only=True):
    """The events of a message, oldest first."""

    traces: list[WireEvent]


class NamedEvent(WireEvent, frozen=True, kw_only=True):
    """An event with its message."""

    transaction_id: str
    partition_id: UUID
    offset: int
    queue_name: str
    partition_name: str
    message_payload: msgspec.Raw
    message_encoding: Encoding
    message_trace_id: UUID | None
    message_producer: str | None
    message_created_at: datetime


class NamedQuery(Body, frozen=True, kw_only=True):
    before: Annotated[int, msgspec.Meta(ge=0, le=MAX_NUMBER)] | None = None
    limit: Limit = 100
    offset: Skip = 0


class NamedEvents(msgspec.Struct, frozen=True, kw_only=True):
    """The events with a name, newest first."""

    traces: list[NamedEvent]
    total: int
    next: int | None
    pagination: Pagination


class NamesQuery(Body, frozen=True, kw_only=True):
    limit: Limit = 50
    offset: Skip = 0


class TraceNameRow(msgspec.Struct, frozen=True, kw_only=True):
    trace_name: str
    trace_count: int
    message_count: int
    last_seen: datetime


class TraceNamesResponse(msgspec.Struct, frozen=True, kw_only=True):
    trace_names: list[TraceNameRow]
    total: int
    pagination: Pagination


class TraceIdQuery(Body, frozen=True, kw_only=True):
    limit: Limit = 1000


class TracedMessages(Body, frozen=True, kw_only=True):
    """The messages that share a trace id, in the order in which they were pushed."""

    trace_id: UUID
    messages: list[WireMessage]


def to_event(event: TraceEvent) -> WireEvent:
    data, encoding = to_wire(event.data)
    return WireEvent(
        id=str(event.number),
        event_type=event.kind,
        data=data,
        encoding=encoding,
        consumer_group=event.group,
        worker_id=event.worker,
        created_at=to_datetime(event.created_at),
        trace_names=event.names,
    )


def to_trace_event(event: WireEvent, partition: int, offset: Offset) -> TraceEvent:
    """An event as the broker's type, for the message at this position."""
    return TraceEvent(
        number=int(event.id),
        partition=partition,
        offset=offset,
        kind=event.event_type,
        data=to_payload(event.data, event.encoding),
        names=event.trace_names,
        group=event.consumer_group,
        worker=event.worker_id,
        created_at=from_datetime("created_at", event.created_at),
    )


def to_trace_name(row: TraceNameRow) -> TraceName:
    return TraceName(
        name=row.trace_name,
        events=row.trace_count,
        messages=row.message_count,
        last_seen_at=from_datetime("last_seen", row.last_seen),
    )


def to_named_event(traced: TracedMessage) -> NamedEvent:
    message = traced.message
    payload, encoding = to_wire(message.payload)
    return NamedEvent(
        **msgspec.structs.asdict(to_event(traced.event)),
        transaction_id=message.transaction_id,
        partition_id=partition_id(message.partition_number),
        offset=message.offset,
        queue_name=message.queue,
        partition_name=message.partition,
        message_payload=payload,
        message_encoding=encoding,
        message_trace_id=message.trace_id,
        message_producer=message.producer,
        message_created_at=message.created_at,
    )


def to_traced_message(named: NamedEvent) -> TracedMessage:
    """An event with its message, as the broker's types."""
    number = partition_of(named.partition_id)
    return TracedMessage(
        event=to_trace_event(named, number, named.offset),
        message=Message(
            queue=named.queue_name,
            partition=named.partition_name,
            partition_number=number,
            offset=named.offset,
            payload=to_payload(named.message_payload, named.message_encoding),
            chosen_id=explicit_transaction_id(
                named.transaction_id, message_id(number, named.offset)
            ),
            trace=named.message_trace_id.bytes if named.message_trace_id else None,
            producer=named.message_producer,
            created_at=named.message_created_at,
        ),
    )


def to_trace_name_row(name: TraceName) -> TraceNameRow:
    return TraceNameRow(
        trace_name=name.name,
        trace_count=name.events,
        message_count=name.messages,
        last_seen=to_datetime(name.last_seen_at),
    )
