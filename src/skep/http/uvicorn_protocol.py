"""An HTTP/1.1 connection with limits on sizes and times.

uvicorn has no time limit for receiving a request or for reading a response, keeps trailers, and
drops the body of a request with an ``Upgrade`` header.
"""

import asyncio
from enum import Enum
from functools import partial
from typing import Any

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from skep.http import rejection as reject
from skep.http.body_budget import BodyBudget
from skep.http.limits import MB, HttpLimits
from skep.http.rejection import Rejected, Rejection, RejectionLog
from skep.http.request import WHOLE_RESPONSE

_LINGER_SECONDS = 1
_LATE_REQUEST_SECONDS = 0.3
"""Time for requests that were sent before the client saw that the server stops."""


class Phase(Enum):
    """What the connection waits for."""

    HEAD = "head"
    BODY = "body"
    RESPONSE = "response"
    NEXT = "next request"


_HEAD, _BODY, _RESPONSE, _NEXT = Phase


class LimitedProtocol(HttpToolsProtocol):
    """HTTP/1.1 with limits on headers, bodies and connections, and on the time they take.

    There is no timer per request, which would cost as much as parsing one: ``check`` is called for
    every connection, once a second.
    """

    limits = HttpLimits()
    budget: BodyBudget
    rejections: RejectionLog

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._phase = _HEAD
        self._since: float | None = None
        """When ``check`` first saw the connection in its phase."""
        self._active: RequestResponseCycle | None = None
        """The request in progress; ``cycle`` is the last one that was parsed."""
        self._read_bytes = 0
        """The size of the last read."""
        self._unparsed_bytes = 0
        """Bytes since headers or a piece of a body were complete."""
        self._trailer_bytes = 0
        self._body_bytes = 0
        self._held_bytes = 0
        """Bytes of the body that count as incomplete."""
        self._chunk_bytes = 0
        self._missing_bytes = 0
        """By how many bytes the chunks since the last response are smaller than the minimum."""
        self._unread_bytes = 0
        """The size of the write buffer at ``_unread_since``."""
        self._unread_since: float | None = None
        self._rejection: Rejection | None = None
        self._stopping = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            self._reject(reject.CONNECTIONS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._release_body()
        for cycle in (self._active, *(queued for queued, _ in self.pipeline)):
            if cycle is not None and not cycle.response_complete:
                _disconnect(cycle)
        self.pipeline.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._rejection is not None or self.transport.is_closing():
            return
        self._read_bytes = len(data)
        self._unparsed_bytes += self._read_bytes
        try:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                self._parse_again(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._reject(getattr(error.__context__, "rejection", reject.INVALID))
            return
        if self._unparsed_bytes > self.limits.header_bytes:
            self._reject(reject.HEADERS_TOO_LARGE)
        elif self._phase is _BODY and not self._hold_body():
            self._reject(reject.INCOMPLETE_BODIES)

    def _parse_again(self, rest: bytes) -> None:
        """Parse a request with Upgrade as if it had none: the parser skipped its body."""
        while True:
            data = self._head_without_upgrade() + rest
            self.parser = httptools.HttpRequestParser(self)
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                rest = data[upgrade.args[0] :]
            else:
                return

    def _head_without_upgrade(self) -> bytes:
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        lines += [b"%b: %b" % each for each in self.headers if each[0] != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._phase, self._since = _HEAD, None

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._phase is _BODY:
            self._drop_trailer(name, value)
            return
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        most = self.limits.header_bytes
        if self._unparsed_bytes > most or self._read_bytes > most:
            self._check_size()
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise Rejected(reject.CONNECT)
            return
        if len(self.pipeline) >= self.limits.pipelined:
            raise Rejected(reject.PIPELINED)
        super().on_headers_complete()
        self._phase, self._since = _BODY, None
        self._unparsed_bytes = self._trailer_bytes = self._body_bytes = 0
        if not self.pipeline:
            self._active = self.cycle
        if self._stopping:
            self.cycle.keep_alive = False
        self.scope["extensions"] = {WHOLE_RESPONSE: {"send": partial(self._send_whole, self.cycle)}}

    def on_body(self, body: bytes) -> None:
        self._unparsed_bytes = 0
        cycle = self.cycle
        if cycle.response_complete:
            return
        self._chunk_bytes += len(body)
        self._body_bytes += len(body)
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_chunk_complete(self) -> None:
        """Limit small chunks: each costs as much as a large one, and all chunks of a read are
        parsed before any other request runs. A large chunk does not compensate for later ones.
        After an early response every chunk counts as small, because reading is not paused then."""
        least = self.limits.chunk_bytes
        self._missing_bytes = max(0, self._missing_bytes + least - self._chunk_bytes)
        self._chunk_bytes = 0
        if self._missing_bytes > self.limits.small_chunks * least:
            raise Rejected(reject.SMALL_CHUNKS)

    def on_message_complete(self) -> None:
        if self._phase is not _BODY:
            # It has an Upgrade header, and will be parsed again.
            return
        self._release_body()
        self._since = None
        if self.cycle.response_complete:
            self._phase = _NEXT
            return
        self._phase = _RESPONSE
        self.cycle.more_body = False
        self.cycle.message_event.set()

    def _check_size(self) -> None:
        size = sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size + len(self.url) > self.limits.header_bytes:
            raise Rejected(reject.HEADERS_TOO_LARGE)

    def _drop_trailer(self, name: bytes, value: bytes) -> None:
        self._trailer_bytes += len(name) + len(value) + 4
        if self._trailer_bytes > self.limits.trailer_bytes:
            raise Rejected(reject.HEADERS_TOO_LARGE)

    def _hold_body(self) -> bool:
        """Count the received part of an incomplete body; False if all bodies exceed the budget."""
        size, self._held_bytes = self._body_bytes - self._held_bytes, self._body_bytes
        return self.budget.add(size)

    def _release_body(self) -> None:
        if self._held_bytes:
            self.budget.release(self._held_bytes)
            self._held_bytes = self._body_bytes = 0

    # Responses

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        self._missing_bytes = 0
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._active, app = self.pipeline.pop()
            self._start_asgi_task(self._active, app)
        elif self._rejection is not None:
            self._send_rejection(self._rejection)
        elif self._phase is _BODY:
            # Early response: the rest of the body is discarded.
            self._release_body()
        elif self._phase is _RESPONSE:
            self._phase, self._since = _NEXT, None

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread_since = None

    def check(self, now: float) -> None:
        """Close the connection of a client that is too slow to send or to read."""
        if self._is_unread(now):
            self.rejections.note(reject.NOT_READ)
            self.transport.abort()
        elif self._rejection or self._phase is _RESPONSE or self.flow.read_paused:
            self._since = None
        elif self._since is None:
            self._since = now
        elif self._phase is _NEXT:
            if now - self._since > self.limits.idle_seconds:
                self.transport.close()
        elif now - self._since > self.limits.receive_seconds:
            self._reject(reject.RECEIVE_TIMEOUT)

    def _is_unread(self, now: float) -> bool:
        """Whether the client has not read the response for too long."""
        unread = self.transport.get_write_buffer_size()
        if not unread:
            self._unread_since = None
        elif self._unread_since is None or unread <= self._unread_bytes - MB:
            self._unread_since, self._unread_bytes = now, unread
        elif now - self._unread_since > self.limits.write_seconds:
            return True
        return False

    def shutdown(self) -> None:
        """Close the connection after the next response.

        A client cannot know the outcome of a request on a closed connection, so one that is already
        on its way is still accepted.
        """
        self._stopping = True
        if self._is_busy:
            self.cycle.keep_alive = False
        else:
            self.loop.call_later(_LATE_REQUEST_SECONDS, self._hang_up)

    @property
    def _is_busy(self) -> bool:
        active = self._active
        return active is not None and not (active.response_complete or active.disconnected)

    def _hang_up(self) -> None:
        if not self._is_busy:
            self.transport.close()

    def _send_whole(
        self, cycle: RequestResponseCycle, status: int, headers: bytes, body: bytes
    ) -> bool:
        """Send headers and body in one write: two would be two packets, and wake the client twice.

        Returns False without sending if uvicorn has to: the client does not read, or has
        disconnected.
        """
        if self.flow.write_paused or cycle.disconnected:
            return False
        parts = [STATUS_LINE[status]]
        parts += [b"%b: %b\r\n" % each for each in self.server_state.default_headers]
        parts.append(headers)
        parts.append(b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n")
        if cycle.scope["method"] != "HEAD":
            parts.append(body)
        self.transport.write(b"".join(parts))
        cycle.response_started = cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()
        return True

    def _reject(self, rejection: Rejection) -> None:
        """Stop reading, and close after the complete requests have been answered."""
        self.rejections.note(rejection.reason)
        self._rejection = rejection
        self._release_body()
        if self.pipeline and self._phase is _BODY:
            self.pipeline.popleft()
        elif self._active is not None and self._phase is _BODY:
            self._reject_unfinished(self._active, rejection)
        elif not self._is_busy:
            self._send_rejection(rejection)

    def _reject_unfinished(self, cycle: RequestResponseCycle, rejection: Rejection) -> None:
        """Reject a request with an incomplete body, unless it already has a response."""
        if cycle.response_complete:
            self._close_after_response()
        elif cycle.response_started:
            self.transport.abort()
        else:
            _disconnect(cycle)
            self._send_rejection(rejection)

    def _send_rejection(self, rejection: Rejection) -> None:
        self.transport.write(rejection.encode())
        self._close_after_response()

    def _close_after_response(self) -> None:
        if self.transport.can_write_eof():
            # Closing at once while the client still sends could discard the response.
            self.transport.write_eof()
            self.loop.call_later(_LINGER_SECONDS, self.transport.close)
        else:
            self.transport.close()


def _disconnect(cycle: RequestResponseCycle) -> None:
    """Tell the application that the client has disconnected."""
    cycle.disconnected = True
    cycle.message_event.set()
