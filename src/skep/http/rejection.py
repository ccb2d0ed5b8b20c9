"""Requests that are rejected before routing, and how they are logged."""

import logging
from collections import Counter
from dataclasses import dataclass

_log = logging.getLogger("skep.http")
REPORT_SECONDS = 10
"""Rejections are logged as one line per interval."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A response that closes the connection."""

    status: str
    reason: str
    headers: str = ""

    def encode(self) -> bytes:
        body = f'{{"error":"{self.reason}"}}'
        return (
            f"HTTP/1.1 {self.status}\r\ncontent-type: application/json\r\n"
            "x-content-type-options: nosniff\r\nreferrer-policy: no-referrer\r\n"
            f"cache-control: no-store\r\n{self.headers}"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n{body}"
        ).encode()


class Rejected(Exception):
    """Raised in a callback of the parser, to stop it."""

    def __init__(self, rejection: Rejection) -> None:
        super().__init__(rejection.reason)
        self.rejection = rejection


INVALID = Rejection("400 Bad Request", "invalid HTTP request")
CONNECT = Rejection("400 Bad Request", "CONNECT is not supported")
PIPELINED = Rejection("400 Bad Request", "too many pipelined requests")
SMALL_CHUNKS = Rejection("400 Bad Request", "too many small chunks in a request body")
RECEIVE_TIMEOUT = Rejection("408 Request Timeout", "timeout while receiving the request")
HEADERS_TOO_LARGE = Rejection(
    "431 Request Header Fields Too Large", "headers or trailers too large"
)
CONNECTIONS = Rejection(
    "503 Service Unavailable", "too many connections", headers="retry-after: 1\r\n"
)
INCOMPLETE_BODIES = Rejection(
    "503 Service Unavailable", "too many incomplete request bodies", headers="retry-after: 1\r\n"
)
NOT_READ = "response not read"


class RejectionLog:
    """Counts rejections by reason, and logs the counts."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._reported: Counter[str] = Counter()

    def note(self, reason: str) -> None:
        self.counts[reason] += 1

    def report(self) -> None:
        """Log the rejections since the last report."""
        new = self.counts - self._reported
        if new:
            counts = ", ".join(f"{reason!r}={count}" for reason, count in new.items())
            self._reported = self.counts.copy()
            _log.warning("connections closed early: %s", counts)
