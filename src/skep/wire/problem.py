"""An error on the wire: its text, its class, and its fields.

``error`` is what Queen's clients read; ``type`` is for ours, so that ``except LeaseLost`` works the
same with the broker and over HTTP.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from skep import errors
from skep.errors import Invalid, OutcomeUnknown, QueueFull, SkepError
from skep.wire.field_path import to_argument, to_camel, to_snake

_STANDARD = frozenset({"error", "type", "status", "code", "remaining"})


def to_problem(error: SkepError, status: int) -> dict[str, Any]:
    problem = {
        "error": str(error),
        "type": type(error).__name__,
        "status": status,
        **{to_camel(name): value for name, value in vars(error).items()},
    }
    if isinstance(error, QueueFull):
        problem |= {"code": error.code, "remaining": error.remaining}
    return problem


def from_problem(problem: dict[str, Any]) -> SkepError:
    """The error of a response; a class that this version does not know becomes ``SkepError``."""
    cls = _BY_NAME.get(str(problem.get("type")), SkepError)
    # Not through __init__: a newer server may send fields that this version does not know.
    error = cls.__new__(cls, str(problem.get("error", "the server gave no reason")))
    vars(error).update(
        {to_snake(key): value for key, value in problem.items() if key not in _STANDARD}
    )
    return _with_client_field(error)


def _with_client_field(error: SkepError) -> SkepError:
    """The error with its field named as the client's argument."""
    field, reason = getattr(error, "field", None), getattr(error, "reason", None)
    if isinstance(error, Invalid) and isinstance(field, str) and isinstance(reason, str):
        return type(error)(to_argument(field), reason)
    return error


def from_response(status: int, content: bytes) -> SkepError:
    """The error for a response, also for one of a proxy or a newer server."""
    problem = _read(content)
    if problem.get("type") in _BY_NAME:
        return from_problem(problem)
    words = str(problem.get("error", f"the server responded with status {status}"))
    if status in _BY_STATUS:
        return _BY_STATUS[status](words)
    return OutcomeUnknown(words) if status >= 500 else SkepError(words)


def _read(content: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return {}


def _family(cls: type[SkepError]) -> Iterator[type[SkepError]]:
    yield cls
    for child in cls.__subclasses__():
        yield from _family(child)


_BY_NAME = {cls.__name__: cls for cls in _family(SkepError)}
_BY_STATUS: dict[int, Callable[[str], SkepError]] = {
    400: lambda words: errors.Invalid("request", words),
    401: errors.Unauthenticated,
    403: errors.Forbidden,
    404: errors.NotFound,
    408: errors.Unavailable,
    413: lambda words: errors.TooLarge("body", words),
    429: errors.Unavailable,
    503: errors.Unavailable,
}
