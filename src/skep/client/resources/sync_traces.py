"""Traces on a server: messages that share a trace id, and events of messages.

Generated from ``async_traces.py``: change that, then ``make sync``.
"""

from collections.abc import Sequence
from itertools import count
from uuid import UUID

from skep.client.request import post, read
from skep.client.sync_connection import Connection
from skep.errors import Invalid
from skep.model.address import address_of, partition_id
from skep.model.message import Message
from skep.model.message_view import TracedMessage
from skep.model.name import check_id, check_name, check_text, from_datetime
from skep.model.stats import MessageStatus
from skep.model.trace import TraceEvent, TraceName
from skep.wire import paths
from skep.wire.message.message import from_message
from skep.wire.message.trace import (
    MessageEvents,
    NamedEvents,
    TraceBody,
    TracedMessages,
    TraceEventRecorded,
    TraceNamesResponse,
    to_trace_event,
    to_trace_name,
    to_traced_message,
)
from skep.wire.payload import to_wire

_NAMES = 1000
"""Names per page."""


class TracesResource:
    """The methods of ``Broker.traces``, over HTTP."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def messages(self, trace_id: UUID, *, limit: int = 1000) -> Sequence[Message]:
        """Return the messages with a trace id, of all queues, in the order of their pushes."""
        return [message for message, _ in self.statuses(trace_id, limit=limit)]

    def statuses(
        self, trace_id: UUID, *, limit: int = 1000
    ) -> Sequence[tuple[Message, MessageStatus]]:
        """Return the messages with a trace id, each with its status over all groups."""
        request = read(paths.traced(check_id("trace_id", trace_id)), limit=limit)
        answer = self._connection.send(request)
        messages = answer.decode(TracedMessages).messages
        return [(from_message(message), message.status) for message in messages]

    def record(
        self,
        message_id: UUID,
        kind: str,
        data: bytes,
        *,
        names: Sequence[str] = (),
        group: str | None = None,
        worker: str | None = None,
    ) -> TraceEvent:
        """Record an event of a message. It is kept as long as the message."""
        if not isinstance(data, bytes):
            raise Invalid("data", f"must be bytes, not {type(data).__name__}")
        if isinstance(names, str):
            raise Invalid("names", "must be a sequence of names")
        number, offset = address_of(check_id("message_id", message_id))
        raw, encoding = to_wire(data)
        names = list(dict.fromkeys(names))
        body = TraceBody(
            transaction_id=str(message_id),
            partition_id=partition_id(number),
            data=raw,
            encoding=encoding,
            event_type=kind,
            trace_names=names,
            consumer_group=group,
            worker_id=worker,
        )
        answer = self._connection.send(post(paths.TRACES, body, repeatable=False))
        recorded = answer.decode(TraceEventRecorded)
        return TraceEvent(
            number=int(recorded.trace_id),
            partition=number,
            offset=offset,
            kind=kind,
            data=data,
            names=tuple(names),
            group=group,
            worker=worker,
            created_at=from_datetime("created_at", recorded.created_at),
        )

    def events(self, message_id: UUID) -> Sequence[TraceEvent]:
        """Return the events of a message, oldest first."""
        number, offset = address_of(check_id("message_id", message_id))
        path = paths.trace_events(partition_id(number), str(message_id))
        answer = self._connection.send(read(path))
        traces = answer.decode(MessageEvents).traces
        return [to_trace_event(event, number, offset) for event in traces]

    def named(
        self, name: str, *, before: int | None = None, limit: int = 100
    ) -> Sequence[TraceEvent]:
        """Return the events with a name, newest first.

        ``before`` is the number of the last event of the previous page.
        """
        traced_messages = self.named_messages(name, before=before, limit=limit)
        return [traced.event for traced in traced_messages]

    def named_messages(
        self, name: str, *, before: int | None = None, limit: int = 100
    ) -> Sequence[TracedMessage]:
        """Return the events with a name, each with its message."""
        path = paths.named_events(check_name("name", name))
        answer = self._connection.send(read(path, before=before, limit=limit))
        return [to_traced_message(event) for event in answer.decode(NamedEvents).traces]

    def names(self, *, after: str = "", limit: int = 100) -> Sequence[TraceName]:
        """Return the names of events in order, starting after ``after``."""
        check_text("after", after)
        names: list[TraceName] = []
        for page in count():
            request = read(paths.TRACE_NAMES, limit=_NAMES, offset=page * _NAMES)
            answer = self._connection.send(request)
            rows = answer.decode(TraceNamesResponse).trace_names
            names += (to_trace_name(row) for row in rows if row.trace_name > after)
            if len(rows) < _NAMES or len(names) >= limit:
                break
        return names[:limit]
