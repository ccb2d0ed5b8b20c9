"""Payloads on the wire: JSON as it is, byte for byte; anything else in base64."""

import sys
from base64 import b64decode, b64encode
from binascii import Error
from itertools import accumulate
from typing import Literal

import msgspec

from skep.errors import Invalid

MAX_DEPTH = 128
MAX_PARENTS = 500_000
"""Maximum number of arrays and objects in a payload that contain others."""
_EMPTY = msgspec.Raw(b"{}")
Encoding = Literal["json", "base64"]

_skip = msgspec.json.Decoder(msgspec.Raw).decode
_text = msgspec.json.Decoder(str).decode
_SQUARE = bytes.maketrans(b"{}", b"[]")
_OTHERS = bytes(set(range(256)) - set(b'[]{}"'))
_STEPS = bytes.maketrans(b"[]", b"\x01\xff")


def empty() -> msgspec.Raw:
    """The payload of an item without one."""
    return _EMPTY


def from_wire(
    field: str, payload: msgspec.Raw, encoding: Encoding, *, most: int = sys.maxsize
) -> bytes:
    """The bytes of a payload on the wire; JSON of at most ``most`` bytes."""
    data = bytes(payload)
    if encoding == "base64":
        return _from_base64(field, data)
    if len(data) > most:
        raise Invalid(field, f"is {len(data)} bytes long, at most {most} are allowed")
    check_depth(field, data)
    return data


def to_wire(payload: bytes) -> tuple[msgspec.Raw, Encoding]:
    """A payload as JSON: unchanged if it is JSON, otherwise in base64."""
    if is_json(payload):
        return msgspec.Raw(payload), "json"
    return msgspec.Raw(b'"' + b64encode(payload) + b'"'), "base64"


def to_payload(data: msgspec.Raw, encoding: Encoding) -> bytes:
    """The bytes of a payload that the server sent, as they were pushed."""
    return b64decode(_text(data)) if encoding == "base64" else bytes(data)


def is_json(payload: bytes) -> bool:
    """Whether it can be embedded in a body: not what parsers would change or reject."""
    try:
        if len(_skip(payload)) != len(payload):
            return False
    except (msgspec.DecodeError, RecursionError):
        return False
    return (payload.isascii() or _is_utf8(payload)) and not is_deep(payload)


def check_depth(field: str, data: bytes) -> None:
    """Reject payloads that are nested too deep for parsers."""
    if is_deep(data):
        raise Invalid(
            field,
            f"is nested deeper than {MAX_DEPTH} levels, "
            f"or has more than {MAX_PARENTS} arrays and objects that contain others",
        )


def is_deep(data: bytes) -> bool:
    """Whether valid JSON is nested too deep. Each bracket has two bytes, so most is too short."""
    if len(data) <= 2 * MAX_DEPTH:
        return False
    return data.count(b"[") + data.count(b"{") > MAX_DEPTH and depth_of(data) > MAX_DEPTH


def depth_of(data: bytes) -> int:
    """The nesting depth of valid JSON; above the maximum if too many arrays are nested."""
    brackets = _brackets(data)
    inner = brackets.replace(b"[]", b"")
    if len(inner) > 2 * MAX_PARENTS:
        return MAX_DEPTH + 1
    steps = memoryview(inner.translate(_STEPS)).cast("b")
    return max(accumulate(steps), default=0) + bool(brackets)


def _brackets(data: bytes) -> bytes:
    """The brackets of valid JSON, without those in strings, all of them square."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Two adjacent quotes change nothing: what is before and after stays as it is.
    marks = data.translate(_SQUARE, _OTHERS).replace(b'""', b"")
    return b"".join(marks.split(b'"')[::2])


def _from_base64(field: str, data: bytes) -> bytes:
    try:
        return b64decode(_text(data), validate=True)
    except (msgspec.DecodeError, Error, ValueError):
        raise Invalid(field, "must be a base64 string") from None


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
