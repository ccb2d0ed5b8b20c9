"""Payloads on the wire: JSON as it is, byte for byte; anything else in base64."""

from base64 import b64decode, b64encode
from binascii import Error
from typing import Literal

import msgspec

from skep.errors import Invalid

MAX_DEPTH = 128
_EMPTY = msgspec.Raw(b"{}")
Encoding = Literal["json", "base64"]

_skip = msgspec.json.Decoder(msgspec.Raw).decode
_text = msgspec.json.Decoder(str).decode
_OPENING = b"[{"
_CLOSING = b"]}"


def empty() -> msgspec.Raw:
    """What stands for a payload that was left out."""
    return _EMPTY


def from_wire(field: str, payload: msgspec.Raw, encoding: Encoding) -> bytes:
    """The bytes that a payload on the wire stands for."""
    data = bytes(payload)
    if encoding == "base64":
        return _from_base64(field, data)
    check_depth(field, data)
    return data


def to_wire(payload: bytes) -> tuple[msgspec.Raw, Encoding]:
    """A payload as JSON: itself if it is JSON that arrives as it is, otherwise in base64."""
    if is_json(payload):
        return msgspec.Raw(payload), "json"
    return msgspec.Raw(b'"' + b64encode(payload) + b'"'), "base64"


def to_payload(data: msgspec.Raw, encoding: Encoding) -> bytes:
    """The bytes of a payload that the server sent, as they were pushed."""
    return b64decode(_text(data)) if encoding == "base64" else bytes(data)


def is_json(payload: bytes) -> bool:
    """Whether it can stand in a body as it is: what parsers strip or give up on cannot."""
    try:
        if len(_skip(payload)) != len(payload):
            return False
    except (msgspec.DecodeError, RecursionError):
        return False
    return (payload.isascii() or _is_utf8(payload)) and not is_deep(payload)


def check_depth(field: str, data: bytes) -> None:
    """Refuse what is nested so deep that parsers give up on it."""
    if is_deep(data):
        raise Invalid(field, f"is nested deeper than {MAX_DEPTH} levels")


def is_deep(data: bytes) -> bool:
    """Whether valid JSON is nested too deep. What is opened is closed, so most is too short."""
    if len(data) <= 2 * MAX_DEPTH:
        return False
    return data.count(b"[") + data.count(b"{") > MAX_DEPTH and depth_of(data) > MAX_DEPTH


def depth_of(data: bytes) -> int:
    """How deep valid JSON is nested."""
    depth = deepest = 0
    quoted = escaped = False
    for byte in data:
        if escaped:
            escaped = False
        elif byte == 0x5C:
            escaped = quoted
        elif byte == 0x22:
            quoted = not quoted
        elif quoted:
            continue
        elif byte in _OPENING:
            depth += 1
            deepest = max(deepest, depth)
        elif byte in _CLOSING:
            depth -= 1
    return deepest


def _from_base64(field: str, data: bytes) -> bytes:
    try:
        return b64decode(_text(data), validate=True)
    except (msgspec.DecodeError, Error, ValueError):
        raise Invalid(field, "must be a text in base64") from None


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
