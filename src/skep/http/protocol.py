"""A connection that has no patience: for headers that do not end, and senders that do not send.

uvicorn lets a request take as long as it likes to arrive. Two thousand connections that send a byte
per second would hold the door for ever.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from skep.http.limits import DoorLimits


class DoorProtocol(HttpToolsProtocol):
    """HTTP/1.1 with limits on headers, on the time they take, and on connections."""

    limits = DoorLimits()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        self._header_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            self._refuse(b"503 Service Unavailable", b"too many connections")
        else:
            self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._deadline is None and not self._in_request():
            self._expect_headers()
        self._header_bytes += len(data)
        super().data_received(data)
        if self._deadline is not None and self._header_bytes > self.limits.header_bytes:
            self._stop_waiting()
            self._refuse(b"431 Request Header Fields Too Large", b"the headers are too large")

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        self._header_bytes = 0
        super().on_headers_complete()

    def _in_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _expect_headers(self) -> None:
        self._header_bytes = 0
        self._deadline = self.loop.call_later(self.limits.receive_seconds, self._too_slow)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        self._refuse(b"408 Request Timeout", b"the request took too long to arrive")

    def _refuse(self, status: bytes, reason: bytes) -> None:
        body = b'{"error":"%s"}' % reason
        self.transport.write(
            b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
            b"connection: close\r\n\r\n%s" % (status, len(body), body)
        )
        self.transport.close()
