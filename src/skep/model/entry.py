"""Small facts that live beside the log: the state of stream queries, what a server was told."""

import msgspec

from skep.errors import Invalid
from skep.model.name import Instant, check_text

MAX_KEY_BYTES = 4096


class Entry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The value of a key in a space; ``version`` grows with every write to it."""

    space: str
    key: str
    value: bytes
    version: int
    updated_at: Instant


def check_key(field: str, key: object) -> str:
    """Return ``key`` if it may be the key of an entry: any text without a zero byte."""
    text = check_text(field, key)
    if "\x00" in text:
        raise Invalid(field, "must not contain a zero byte")
    if len(text.encode()) > MAX_KEY_BYTES:
        raise Invalid(field, f"is longer than {MAX_KEY_BYTES} bytes")
    return text
