"""A connection that has no patience: for headers that do not end, and senders that do not send.

uvicorn lets a request take as long as it likes to arrive. Two thousand connections that send a byte
per second would hold the door for ever.
"""

import asyncio
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from skep.http.call import ANSWER, Headers
from skep.http.limits import DoorLimits

_LINGER_SECONDS = 1
_LAST_SECONDS = 0.3
"""How long a request may have been on its way when the server was told to stop."""
_TOO_LARGE = (b"431 Request Header Fields Too Large", b"the headers are too large")


class DoorProtocol(HttpToolsProtocol):
    """HTTP/1.1 with limits on headers, on the time they take, and on connections.

    There is no timer per request, nor for what lies between two of them, which would cost as much
    as parsing one: ``check`` is called for every connection, once a second.
    """

    limits = DoorLimits()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waiting_since: float | None = None
        """Since when headers are awaited that have not come, or not all of them."""
        self._idle_since: float | None = None
        """Since when there was nothing, after something was answered."""
        self._header_bytes = 0
        self._oversized = False
        self._refused = False
        self._leaving = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._waiting_since = self.loop.time()
        if len(self.connections) > self.limits.connections:
            self._refuse(b"503 Service Unavailable", b"too many connections")

    def data_received(self, data: bytes) -> None:
        if self._refused or self.transport.is_closing():
            return
        # What came may be the body as well: only if it is much, its headers are counted.
        self._header_bytes += len(data)
        super().data_received(data)
        if self._waiting_since is None:
            self._header_bytes = 0
        elif self._header_bytes > self.limits.header_bytes:
            self._refuse(*_TOO_LARGE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._idle_since = None
        self._waiting_since = self.loop.time()

    def on_headers_complete(self) -> None:
        self._waiting_since = None
        if self._header_bytes > self.limits.header_bytes:
            size = sum(len(name) + len(value) + 4 for name, value in self.headers)
            self._oversized = size + len(self.url) > self.limits.header_bytes
            if self._oversized:
                raise ValueError("the parser stops at this and asks for a 400")
        super().on_headers_complete()
        if self._leaving:
            self.cycle.keep_alive = False
        self.scope["extensions"] = {ANSWER: {"send": partial(self._answer, self.cycle)}}

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._idle_since = self.loop.time()

    def check(self, now: float) -> None:
        """Cut off a sender whose headers take too long, and one that has nothing to say."""
        since = self._waiting_since
        if since is not None and now - since > self.limits.receive_seconds:
            self._refuse(b"408 Request Timeout", b"the request took too long to arrive")
        elif self._idle_since is not None and now - self._idle_since > self.limits.idle_seconds:
            self.transport.close()

    def shutdown(self) -> None:
        """Hang up after the next answer.

        Nobody can know what became of a request that finds the line dead, so one that has been
        sent already is let in.
        """
        self._leaving = True
        if self._is_quiet:
            self.loop.call_later(_LAST_SECONDS, self._hang_up)
        else:
            self.cycle.keep_alive = False

    @property
    def _is_quiet(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _hang_up(self) -> None:
        if self._is_quiet:
            self.transport.close()

    def _answer(
        self, cycle: RequestResponseCycle, status: int, headers: Headers, body: bytes
    ) -> bool:
        """Send headers and body in one write: two are two packets, and wake the client twice.

        False, and nothing, if uvicorn has to do it: the client does not read, or has gone.
        """
        if self.flow.write_paused or cycle.disconnected:
            return False
        parts = [STATUS_LINE[status]]
        parts += [b"%b: %b\r\n" % each for each in self.server_state.default_headers]
        parts += [b"%b: %b\r\n" % each for each in headers]
        parts.append(b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n")
        if cycle.scope["method"] != "HEAD":
            parts.append(body)
        self.transport.write(b"".join(parts))
        cycle.response_started = cycle.response_complete = True
        cycle.message_event.set()
        # It leads back here: without this every request were left to the garbage collector.
        del cycle.scope["extensions"]
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()
        return True

    def send_400_response(self, msg: str) -> None:
        if self._oversized:
            self._refuse(*_TOO_LARGE)
        else:
            self._refuse(b"400 Bad Request", b"this is not a valid HTTP request")

    def _refuse(self, status: bytes, reason: bytes) -> None:
        self._waiting_since = None
        self._refused = True
        body = b'{"error":"%s"}' % reason
        self.transport.write(
            b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
            b"connection: close\r\n\r\n%s" % (status, len(body), body)
        )
        if self.transport.can_write_eof():
            # To hang up on somebody who is still sending would take the answer back.
            self.transport.write_eof()
            self.loop.call_later(_LINGER_SECONDS, self.transport.close)
        else:
            self.transport.close()
