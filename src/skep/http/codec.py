"""Decodes and validates bodies and queries in one pass; errors name the field."""

import re
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from skep.errors import Invalid

MAX_CACHED_BYTES = 512
"""Maximum bytes of a path or query that is cached."""
_MISSING = re.compile(r"Object missing required field `(.+?)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.+?)`")
_PLACE = re.compile(r" - at `(?:key in )?\$?\.?(.*?)`$")


@lru_cache(maxsize=256)
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def decode_body(kind: Any, body: bytes) -> Any:
    """A body as the route's type; an absent body is an empty object."""
    check_utf8(body)
    return decode_json(kind, body or b"{}")


def decode_json(kind: Any, text: bytes | memoryview) -> Any:
    """JSON as a type; raises ``Invalid`` with the name of the wrong field."""
    try:
        return _decoder(kind).decode(text)
    except msgspec.ValidationError as error:
        raise _invalid(str(error), "body") from None
    except msgspec.DecodeError as error:
        raise Invalid("body", f"is not valid JSON: {str(error).lower()}") from None
    except RecursionError:
        raise Invalid("body", "is nested too deep") from None


def decode_query(kind: Any, query: bytes) -> Any:
    """A query as the route's type. Empty and unknown parameters are ignored.

    Consumers send the same query many times, so the last few thousand are cached.
    """
    return _cached_query(kind, query) if len(query) <= MAX_CACHED_BYTES else _query(kind, query)


def _query(kind: Any, query: bytes) -> Any:
    try:
        pairs = parse_qsl(query.decode("ascii"), errors="strict", max_num_fields=100)
    except ValueError:
        raise Invalid("query", "is not a valid query") from None
    try:
        return msgspec.convert(dict(pairs), kind, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid(str(error), "query") from None


_cached_query = lru_cache(maxsize=4096)(_query)


def check_utf8(body: bytes) -> None:
    if body.isascii():
        return
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise Invalid("body", f"is not valid UTF-8 at byte {error.start}") from None


def _invalid(text: str, where: str) -> Invalid:
    location = _PLACE.search(text)
    path = location[1] if location else ""
    reason = text[: location.start()] if location else text
    missing = _MISSING.match(reason)
    if missing:
        return Invalid(f"{path}.{missing[1]}".lstrip("."), "is required")
    unknown = _UNKNOWN.match(reason)
    if unknown:
        return Invalid(f"{path}.{unknown[1]}".lstrip("."), "is not known here")
    return Invalid(path or where, reason[:1].lower() + reason[1:])
