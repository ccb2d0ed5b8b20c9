"""A connection that has no patience: for headers that do not end, and senders that do not send.

uvicorn lets a request take as long as it likes to arrive. Two thousand connections that send a byte
per second would hold the door for ever.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from skep.http.limits import DoorLimits

_LINGER_SECONDS = 1
_TOO_LARGE = (b"431 Request Header Fields Too Large", b"the headers are too large")


class DoorProtocol(HttpToolsProtocol):
    """HTTP/1.1 with limits on headers, on the time they take, and on connections.

    There is no timer per request, which would cost as much as parsing one: ``check`` is called
    for every connection, once a second.
    """

    limits = DoorLimits()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waiting_since: float | None = None
        """Since when headers are awaited that have not come, or not all of them."""
        self._header_bytes = 0
        self._oversized = False
        self._refused = False

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
        self._waiting_since = self.loop.time()

    def on_headers_complete(self) -> None:
        self._waiting_since = None
        if self._header_bytes > self.limits.header_bytes:
            size = sum(len(name) + len(value) + 4 for name, value in self.headers)
            self._oversized = size + len(self.url) > self.limits.header_bytes
            if self._oversized:
                raise ValueError("the parser stops at this and asks for a 400")
        super().on_headers_complete()

    def check(self, now: float) -> None:
        """Cut off a sender whose headers take too long."""
        since = self._waiting_since
        if since is not None and now - since > self.limits.receive_seconds:
            self._refuse(b"408 Request Timeout", b"the request took too long to arrive")

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
