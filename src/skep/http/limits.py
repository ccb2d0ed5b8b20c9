"""What one sender may take of the door."""

from dataclasses import dataclass

MB = 1 << 20
ANY_SIZE = 1 << 62
"""No limit of a route: that of the server holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    body_bytes: int = 16 * MB
    unfinished_bytes: int = 256 * MB
    """Bytes of bodies that have not arrived completely, over all connections."""
    header_bytes: int = 16 << 10
    trailer_bytes: int = 4 << 10
    """Trailers of a chunked body; they are dropped."""
    chunk_bytes: int = 64
    small_chunks: int = 1000
    """How many chunks of a body may be smaller than ``chunk_bytes``; larger ones that follow
    make up for them."""
    pipelined: int = 100
    """Requests of one connection that wait for the answer to an earlier one."""
    receive_seconds: float = 10.0
    """How long a TLS handshake, the headers, and then the body of a request may take to arrive."""
    write_seconds: float = 30.0
    """How long a client may take to read a response, or each megabyte of a large one."""
    idle_seconds: float = 75.0
    """How long a connection may lie unused between two requests."""
    connections: int = 10_000
