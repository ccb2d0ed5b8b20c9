"""Limits per connection and request."""

from dataclasses import dataclass

MB = 1 << 20
ANY_SIZE = 1 << 62
"""No limit of the route: the server's limit applies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    body_bytes: int = 16 * MB
    unfinished_bytes: int = 256 * MB
    """Bytes of incomplete bodies, over all connections."""
    header_bytes: int = 16 << 10
    trailer_bytes: int = 4 << 10
    """Trailers of a chunked body; they are discarded."""
    chunk_bytes: int = 64
    small_chunks: int = 1000
    """How many chunks may be smaller than ``chunk_bytes``; later, larger ones compensate."""
    pipelined: int = 100
    """Requests of one connection that wait for the response to an earlier one."""
    receive_seconds: float = 10.0
    """Maximum time for a TLS handshake, for the headers, and for the body of a request."""
    write_seconds: float = 30.0
    """Maximum time to read a response, or each megabyte of a large one."""
    idle_seconds: float = 75.0
    """Maximum idle time of a connection between two requests."""
    connections: int = 10_000
