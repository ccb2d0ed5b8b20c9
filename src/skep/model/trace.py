"""What consumers recorded about messages on their way."""

import msgspec

from skep.model.name import Instant, Offset


class TraceEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to a message, recorded by who handled it.

    ``names`` tie events of different messages together. An event lives as long as its message.
    """

    number: int = 0
    partition: int
    offset: Offset
    kind: str
    data: bytes
    names: tuple[str, ...] = ()
    group: str | None = None
    worker: str | None = None
    created_at: Instant = 0


class TraceName(msgspec.Struct, frozen=True, kw_only=True):
    """A name that trace events carry, and how much stands behind it."""

    name: str
    events: int
    messages: int
    last_seen_at: Instant
