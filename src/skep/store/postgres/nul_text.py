"""Any text in PostgreSQL, which cannot store a zero character.

It is kept as U+E000, of the private use area, and ``0``; U+E000 itself is kept twice. Nearly no
text has either, so nearly every text is kept as it is, and reads the same in SQL.
"""

import hashlib
import re
from collections.abc import Sequence

_MARK = "\ue000"
_MARKED = re.compile(_MARK + "(.)", re.DOTALL)


def to_text(text: str) -> str:
    if "\x00" in text or _MARK in text:
        return text.replace(_MARK, _MARK * 2).replace("\x00", _MARK + "0")
    return text


def from_text(text: str) -> str:
    if _MARK in text:
        return _MARKED.sub(lambda found: _MARK if found[1] == _MARK else "\x00", text)
    return text


def to_label(text: str | None) -> str | None:
    return None if text is None else to_text(text)


def from_label(text: str | None) -> str | None:
    return None if text is None else from_text(text)


def to_texts(texts: Sequence[str | None] | None) -> list[str | None] | None:
    """A column of texts; None if all of them are empty."""
    if texts is None or not any(texts):
        return None
    together = "".join([text for text in texts if text])
    if "\x00" in together or _MARK in together:
        return list(map(to_label, texts))
    return list(texts)


def from_texts(texts: list[str | None] | None) -> list[str | None] | None:
    if texts is None or _MARK not in "".join([text for text in texts if text]):
        return texts
    return list(map(from_label, texts))


def hash_of(text: str) -> bytes:
    """The key of a text in an index; different texts have different keys."""
    return hashlib.sha256(text.encode()).digest()[:16]
