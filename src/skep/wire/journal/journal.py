"""``/api/v1/journal``"""

from typing import Annotated, Literal

import msgspec

from skep.model.journal import Position, Range
from skep.wire.body import LIST, Body


class _StrictBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Unknown fields are rejected: both ends would mean different things."""


class HeadsBody(_StrictBody, frozen=True, kw_only=True):
    """Queues by name or by a pattern; the limits are those of the next batch.

    ``at`` is in milliseconds since 1970.
    """

    queues: Annotated[tuple[str, ...], LIST] | None = None
    pattern: str | None = None
    at: int | None = None
    after: Position | None = None
    wait: int = 0
    max_rows: int | None = None
    max_bytes: int | None = None


class HeadsResponse(Body, frozen=True, kw_only=True):
    """The heads and the first positions of the queues, and the end of the next batch.

    ``at`` is the position of the first messages pushed at the requested time or later.
    """

    heads: Position
    first: Position
    at: Position | None
    end: Position
    rows: int


Column = Literal[
    "queue",
    "partition",
    "offset",
    "message_id",
    "transaction_id",
    "trace_id",
    "producer",
    "created_at",
    "payload",
    "lane",
    "position",
]


class ReadBody(_StrictBody, frozen=True, kw_only=True):
    """Ranges of lanes, and a selection of their messages and columns."""

    queue: str
    number: int
    ranges: tuple[Range, ...]
    columns: tuple[Column, ...]
    partitions: Annotated[frozenset[str], LIST] | None = None
    prefix: str | None = None
    share: tuple[int, int] | None = None
    in_order: bool = False
    """Each lane once, merged: each partition in the order of its offsets."""
    batch_rows: int = 8192
    payload: Literal["text", "binary"] = "text"


class StartAt(_StrictBody, frozen=True, kw_only=True):
    """Milliseconds since 1970, and what to do if all messages are older."""

    at: int
    otherwise: Literal["error", "latest"] = "error"


class BeginBody(_StrictBody, frozen=True, kw_only=True):
    """The start: ``earliest``, ``latest``, ``group``, a position, or a time."""

    queues: Annotated[tuple[str, ...], LIST] | None = None
    pattern: str | None = None
    start: msgspec.Raw


class BeginResponse(Body, frozen=True, kw_only=True):
    """``pinned`` is true if the start was decided now."""

    position: Position
    pinned: bool


class MoveBody(_StrictBody, frozen=True, kw_only=True):
    """The position of a group; with ``stay`` the shown position does not change."""

    position: Position
    stay: bool = False


class ReaderResponse(Body, frozen=True, kw_only=True):
    """The position of a reader group, and its lag in messages."""

    group: str
    position: Position
    heads: Position
    lag: int


Word = Literal["earliest", "latest", "group"]
_word = msgspec.json.Decoder(Word)
_at = msgspec.json.Decoder(StartAt)
_position = msgspec.json.Decoder(Position)


def to_start(start: msgspec.Raw) -> Word | Position | StartAt:
    """Decode one of the three forms of a start."""
    if bytes(start).startswith(b'"'):
        word: Word = _word.decode(start)
        return word
    fields = msgspec.json.decode(start, type=dict[str, msgspec.Raw])
    return _at.decode(start) if "at" in fields else _position.decode(start)
