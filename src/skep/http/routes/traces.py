"""Traces: what was recorded about messages, and the messages that share a trace id."""

from collections.abc import Iterable
from uuid import UUID

from skep.errors import Invalid
from skep.http.auth.principal import Permission, not_yours
from skep.http.limits import ANY_SIZE
from skep.http.request import Call, Reply
from skep.http.routes.lookup import find_message, message_in_path, queue_of_partition
from skep.http.routing import get, no_queue, post
from skep.model.address import partition_of
from skep.model.name import to_datetime
from skep.wire.message.message import to_message
from skep.wire.message.trace import (
    FIELDS,
    MessageEvents,
    NamedEvents,
    NamedQuery,
    NameRows,
    NamesQuery,
    TraceBody,
    TracedMessages,
    TraceEventRecorded,
    TraceIdQuery,
    to_event,
    to_name_row,
    to_named_event,
)
from skep.wire.pagination import Pagination
from skep.wire.payload import from_wire


async def record(call: Call) -> Reply:
    """Record an event of a message."""
    body: TraceBody = call.body
    message = await find_message(call, _partition(body), body.transaction_id)
    event = await call.broker.traces.record(
        message.id,
        body.event_type,
        from_wire("data", body.data, body.encoding, most=call.broker.limits.payload_bytes),
        names=body.trace_names or (),
        group=body.consumer_group,
        worker=body.worker_id,
    )
    recorded_at = to_datetime(event.created_at)
    return Reply(TraceEventRecorded(trace_id=str(event.number), created_at=recorded_at), 201)


async def of_message(call: Call) -> Reply:
    """The events of one message."""
    message = await message_in_path(call)
    events = await call.broker.traces.events(message.id)
    return Reply(MessageEvents(traces=[to_event(event) for event in events]))


async def by_name(call: Call) -> Reply:
    """The events that carry a name, in queues that the caller sees."""
    query: NamedQuery = call.query
    page = await call.broker.insight.traces.events(
        call.params["name"],
        call.principal.sees,
        before=query.before,
        offset=query.offset,
        limit=query.limit,
    )
    return Reply(
        NamedEvents(
            traces=[to_named_event(traced) for traced in page.events],
            total=page.total,
            next=page.next,
            pagination=Pagination(limit=query.limit, offset=query.offset, total=page.total),
        )
    )


async def names(call: Call) -> Reply:
    """The names that events carry, in queues that the caller sees."""
    query: NamesQuery = call.query
    page = await call.broker.insight.traces.names(
        call.principal.sees,
        seeing_all=not call.principal.restricted,
        offset=query.offset,
        limit=query.limit,
    )
    return Reply(
        NameRows(
            trace_names=[to_name_row(name) for name in page.names],
            total=page.total,
            pagination=Pagination(limit=query.limit, offset=query.offset, total=page.total),
        )
    )


async def by_trace_id(call: Call) -> Reply:
    """The messages of all queues that the caller sees and that share a trace id."""
    trace_id = _trace_id(call.params["traceId"])
    visible = call.principal.sees if call.principal.restricted else None
    found = await call.broker.traces.messages(trace_id, visible=visible, limit=call.query.limit)
    views = [await call.broker.insight.messages.get(message.id) for message in found]
    return Reply(TracedMessages(trace_id=trace_id, messages=[to_message(view) for view in views]))


def _trace_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Invalid("traceId", f"{text[:64]!r} is not a UUID") from None


def _partition(body: TraceBody) -> int:
    try:
        return partition_of(body.partition_id)
    except Invalid as error:
        raise Invalid("partitionId", error.reason) from None


async def _queue_of_body(call: Call) -> Iterable[str]:
    found = await call.broker.held_messages.partition(_partition(call.body))
    if found is None:
        raise not_yours()
    return (found[0],)


ROUTES = (
    post(
        path="/api/v1/traces",
        handler=record,
        needs=Permission.POP,
        queues=_queue_of_body,
        about="Record an event of a message; it lives as long as the message.",
        body=TraceBody,
        body_bytes=ANY_SIZE,
        fields=FIELDS,
        answer=TraceEventRecorded,
        status=201,
    ),
    get(
        path="/api/v1/traces/names",
        handler=names,
        needs=Permission.STATUS,
        queues=no_queue,
        about="The names that trace events carry, in order.",
        query=NamesQuery,
        answer=NameRows,
    ),
    get(
        path="/api/v1/traces/by-name/{name}",
        handler=by_name,
        needs=Permission.READ,
        queues=no_queue,
        about="The trace events that carry a name, newest first, with their messages.",
        query=NamedQuery,
        answer=NamedEvents,
    ),
    get(
        path="/api/v1/traces/id/{traceId}",
        handler=by_trace_id,
        needs=Permission.READ,
        queues=no_queue,
        about="The messages that share a trace id, across queues, in order.",
        query=TraceIdQuery,
        answer=TracedMessages,
    ),
    get(
        path="/api/v1/traces/{partitionId}/{transactionId}",
        handler=of_message,
        needs=Permission.READ,
        queues=queue_of_partition,
        about="The trace events of a message, oldest first.",
        answer=MessageEvents,
    ),
)
