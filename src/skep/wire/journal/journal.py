"""``/api/v1/journal``"""

from typing import Annotated, Literal

import msgspec

from skep.model.journal import Position, Range
from skep.wire.body import LIST, Body


class _StrictBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is not known is refused: its sender and we would mean different things."""


class HeadsBody(_StrictBody, frozen=True, kw_only=True):
    """Queues by name or by a pattern of their names; limits are those of the next batch.

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
    """How far the queues go, from where on they are kept, and where the next batch ends.

    ``at`` is where the messages begin that were pushed at the time that was asked about.
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
    """Ranges of lanes, and what of them is wanted."""

    queue: str
    number: int
    ranges: tuple[Range, ...]
    columns: tuple[Column, ...]
    partitions: Annotated[frozenset[str], LIST] | None = None
    prefix: str | None = None
    share: tuple[int, int] | None = None
    in_order: bool = False
    """Each lane once, and their messages mixed: each partition by its offsets."""
    batch_rows: int = 8192
    payload: Literal["text", "binary"] = "text"


class StartAt(_StrictBody, frozen=True, kw_only=True):
    """Milliseconds since 1970, and what to do if everything is older."""

    at: int
    otherwise: Literal["error", "latest"] = "error"


class BeginBody(_StrictBody, frozen=True, kw_only=True):
    """Where to begin: ``earliest``, ``latest``, ``group``, a position, or a time."""

    queues: Annotated[tuple[str, ...], LIST] | None = None
    pattern: str | None = None
    start: msgspec.Raw


class BeginResponse(Body, frozen=True, kw_only=True):
    """``pinned`` if it was decided now."""

    position: Position
    pinned: bool


class MoveBody(_StrictBody, frozen=True, kw_only=True):
    """How far a group is; with ``stay`` it is shown where it was."""

    position: Position
    stay: bool = False


class ReaderResponse(Body, frozen=True, kw_only=True):
    """How far a group is in the journal, and how many messages lie behind it."""

    group: str
    position: Position
    heads: Position
    lag: int


Word = Literal["earliest", "latest", "group"]
_word = msgspec.json.Decoder(Word)
_at = msgspec.json.Decoder(StartAt)
_position = msgspec.json.Decoder(Position)


def to_start(start: msgspec.Raw) -> Word | Position | StartAt:
    """What of the three it is."""
    if bytes(start).startswith(b'"'):
        word: Word = _word.decode(start)
        return word
    fields = msgspec.json.decode(start, type=dict[str, msgspec.Raw])
    return _at.decode(start) if "at" in fields else _position.decode(start)
