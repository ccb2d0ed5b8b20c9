"""What one sender may take of the door."""

from dataclasses import dataclass

MB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorLimits:
    body_bytes: int = 16 * MB
    header_bytes: int = 16 << 10
    receive_seconds: float = 10.0
    """How long the headers, and then the body, of a request may take to arrive."""
    idle_seconds: float = 75.0
    """How long a connection may lie unused between two requests."""
    connections: int = 10_000
