"""Traces: events recorded for messages, and messages that share a trace id."""

from collections.abc import Iterable
from uuid import UUID

from skep.errors import Invalid
from skep.http.auth.principal import Permission, not_accessible
from skep.http.limits import ANY_SIZE
from skep.http.request import HttpRequest, HttpResponse
from skep.http.routes.lookup import find_message, message_in_path, queue_of_partition
from skep.http.routing import get, no_queue, post
from skep.model.address import partition_of
from skep.model.name import to_datetime
from skep.wire import paths
from skep.wire.message.message import to_message
from skep.wire.message.trace import (
    FIELDS,
    MessageEvents,
    NamedEvents,
    NamedQuery,
    NamesQuery,
    TraceBody,
    TracedMessages,
    TraceEventRecorded,
    TraceIdQuery,
    TraceNamesResponse,
    to_event,
    to_named_event,
    to_trace_name_row,
)
from skep.wire.pagination import Pagination
from skep.wire.payload import from_wire


async def record(request: HttpRequest) -> HttpResponse:
    """Record an event of a message."""
    body: TraceBody = request.body
    message = await find_message(request, _partition(body), body.transaction_id)
    event = await request.broker.traces.record(
        message.id,
        body.event_type,
        from_wire("data", body.data, body.encoding, most=request.broker.limits.payload_bytes),
        names=body.trace_names or (),
        group=body.consumer_group,
        worker=body.worker_id,
    )
    recorded_at = to_datetime(event.created_at)
    return HttpResponse(TraceEventRecorded(trace_id=str(event.number), created_at=recorded_at), 201)


async def of_message(request: HttpRequest) -> HttpResponse:
    """The events of one message."""
    message = await message_in_path(request)
    events = await request.broker.traces.events(message.id)
    return HttpResponse(MessageEvents(traces=[to_event(event) for event in events]))


async def by_name(request: HttpRequest) -> HttpResponse:
    """The events with a name, in queues that the caller may see."""
    query: NamedQuery = request.query
    page = await request.broker.insight.traces.events(
        request.params["name"],
        request.principal.sees,
        before=query.before,
        offset=query.offset,
        limit=query.limit,
    )
    return HttpResponse(
        NamedEvents(
            traces=[to_named_event(traced) for traced in page.events],
            total=page.total,
            next=page.next,
            pagination=Pagination(limit=query.limit, offset=query.offset, total=page.total),
        )
    )


async def names(request: HttpRequest) -> HttpResponse:
    """The names of events, in queues that the caller may see."""
    query: NamesQuery = request.query
    page = await request.broker.insight.traces.names(
        request.principal.sees,
        seeing_all=not request.principal.restricted,
        offset=query.offset,
        limit=query.limit,
    )
    return HttpResponse(
        TraceNamesResponse(
            trace_names=[to_trace_name_row(name) for name in page.names],
            total=page.total,
            pagination=Pagination(limit=query.limit, offset=query.offset, total=page.total),
        )
    )


async def by_trace_id(request: HttpRequest) -> HttpResponse:
    """The messages with a trace id, in all queues that the caller may see."""
    trace_id = _trace_id(request.params["traceId"])
    sees = request.principal.sees if request.principal.restricted else None
    messages = await request.broker.traces.messages(
        trace_id, visible=sees, limit=request.query.limit
    )
    views = [await request.broker.insight.messages.get(message.id) for message in messages]
    return HttpResponse(
        TracedMessages(trace_id=trace_id, messages=[to_message(view) for view in views])
    )


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


async def _queue_of_body(request: HttpRequest) -> Iterable[str]:
    names = await request.broker.held_messages.partition(_partition(request.body))
    if names is None:
        raise not_accessible()
    return (names[0],)


ROUTES = (
    post(
        path=paths.TRACES,
        handler=record,
        needs=Permission.POP,
        queues=_queue_of_body,
        summary="Record an event of a message; it is kept as long as the message.",
        body=TraceBody,
        body_bytes=ANY_SIZE,
        fields=FIELDS,
        response=TraceEventRecorded,
        status=201,
    ),
    get(
        path=paths.TRACE_NAMES,
        handler=names,
        needs=Permission.STATUS,
        queues=no_queue,
        summary="List the names of trace events, in order.",
        query=NamesQuery,
        response=TraceNamesResponse,
    ),
    get(
        path=paths.TRACES_BY_NAME,
        handler=by_name,
        needs=Permission.READ,
        queues=no_queue,
        summary="List the trace events with a name, newest first, with their messages.",
        query=NamedQuery,
        response=NamedEvents,
    ),
    get(
        path=paths.TRACES_BY_ID,
        handler=by_trace_id,
        needs=Permission.READ,
        queues=no_queue,
        summary="List the messages that share a trace id, across queues, in order.",
        query=TraceIdQuery,
        response=TracedMessages,
    ),
    get(
        path=paths.MESSAGE_TRACES,
        handler=of_message,
        needs=Permission.READ,
        queues=queue_of_partition,
        summary="List the trace events of a message, oldest first.",
        response=MessageEvents,
    ),
)
