"""What may be a name, and the small types that have no structure of their own."""

import unicodedata
from datetime import UTC, datetime
from typing import NewType, TypeAlias
from uuid import UUID

from skep.errors import Invalid

Offset: TypeAlias = int
"""A place in a partition: 0, 1, 2 … without gaps."""

Instant: TypeAlias = int
"""Microseconds since 1970, UTC, on the store's clock."""

LeaseId = NewType("LeaseId", str)

DEFAULT_PARTITION = "Default"
QUEUE_MODE = "__QUEUE_MODE__"
"""The group of those who name none."""

RESERVED = "__skep."
"""How the names of our own queues begin, which are not shown and cannot be used by clients."""

MAX_NAME_BYTES = 255
MAX_TRANSACTION_ID = 255

MAX_NUMBER = (1 << 63) - 1
"""The highest number that a dead letter or a trace event can have."""

SECOND = 1_000_000
MILLISECOND = 1_000


def check_text(field: str, text: object) -> str:
    """Return ``text`` if it is a string that can be stored."""
    if not isinstance(text, str):
        raise Invalid(field, f"must be a string, not {type(text).__name__}")
    _utf8(field, text)
    return _plain(text)


def check_name(field: str, name: object) -> str:
    """Return ``name`` if it may name a queue, partition, group, namespace or task."""
    if not isinstance(name, str):
        raise Invalid(field, f"must be a string, not {type(name).__name__}")
    if not name:
        raise Invalid(field, "must not be empty")
    encoded = _utf8(field, name)
    if len(encoded) > MAX_NAME_BYTES:
        raise Invalid(field, f"is {len(encoded)} bytes long, at most {MAX_NAME_BYTES} are allowed")
    if not name.isprintable() and any(unicodedata.category(char) == "Cc" for char in name):
        raise Invalid(field, "must not contain control characters")
    return _plain(name)


def check_queue_name(field: str, name: object) -> str:
    """Return ``name`` if it may name a queue of a client."""
    checked = check_name(field, name)
    if checked.startswith(RESERVED):
        raise Invalid(field, f"must not begin with {RESERVED!r}, which is reserved")
    return checked


def check_label(field: str, name: object) -> str | None:
    """Return ``name`` if it may be a name, or if there is none."""
    return None if name is None else check_name(field, name)


def check_transaction_id(field: str, value: object) -> str:
    """Return ``value`` if it may be a producer's own id: any text up to 255 characters."""
    text = check_text(field, value)
    if not 0 < len(text) <= MAX_TRANSACTION_ID:
        raise Invalid(field, f"must have 1 to {MAX_TRANSACTION_ID} characters, not {len(text)}")
    return text


def check_id(field: str, value: object) -> UUID:
    """Return ``value`` if it is a UUID."""
    if not isinstance(value, UUID):
        raise Invalid(field, f"must be a UUID, not {type(value).__name__}")
    return value


def check_lease_id(field: str, value: object) -> LeaseId:
    """Return ``value`` if it has the form of a lease id, whether or not the lease lives."""
    if not isinstance(value, str):
        raise Invalid(field, f"must be a string, not {type(value).__name__}")
    try:
        return LeaseId(str(UUID(value)))
    except ValueError:
        raise Invalid(field, f"{value[:64]!r} is not a lease id") from None


def check_count(field: str, value: object, *, least: int = 0, most: int) -> int:
    """Return ``value`` if it is a whole number from ``least`` to ``most``."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise Invalid(field, f"must be a whole number, not {type(value).__name__}")
    if not least <= value <= most:
        raise Invalid(field, f"must be from {least} to {most}, not {value}")
    return value


def to_datetime(instant: Instant) -> datetime:
    seconds, micros = divmod(instant, SECOND)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=micros)


def from_datetime(field: str, moment: object) -> Instant:
    """The instant of an aware ``moment``; a naive one could mean anything and is refused."""
    if not isinstance(moment, datetime):
        raise Invalid(field, f"must be a datetime, not {type(moment).__name__}")
    if moment.utcoffset() is None:
        raise Invalid(field, "must have a time zone")
    try:
        delta = moment.astimezone(UTC) - _EPOCH
    except (OverflowError, ValueError):
        raise Invalid(field, "lies outside the years 1 to 9999 of UTC") from None
    return (delta.days * 86_400 + delta.seconds) * SECOND + delta.microseconds


def _plain(text: str) -> str:
    """The text itself: an enumeration's member or another kind of string is kept as one."""
    return str.__str__(text)


def _utf8(field: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Invalid(field, "must be valid Unicode, without lone surrogates") from None


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
