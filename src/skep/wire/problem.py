"""An error on the wire: its words, its class, and its fields.

``error`` is what Queen's clients read; ``type`` is for ours, so that ``except LeaseLost`` reads
the same in the broker and over HTTP.
"""

from collections.abc import Iterator
from typing import Any

from skep.errors import QueueFull, SkepError

_STANDARD = frozenset({"error", "type", "status", "code", "remaining"})


def to_problem(error: SkepError, status: int) -> dict[str, Any]:
    problem = {
        "error": str(error),
        "type": type(error).__name__,
        "status": status,
        **vars(error),
    }
    if isinstance(error, QueueFull):
        problem |= {"code": error.code, "remaining": error.remaining}
    return problem


def from_problem(problem: dict[str, Any]) -> SkepError:
    """Rebuild the error; a class that this version does not know becomes ``SkepError``."""
    cls = _BY_NAME.get(str(problem.get("type")), SkepError)
    # Not through __init__: a newer server may send a field this version has not heard of.
    error = cls.__new__(cls, str(problem.get("error", "the server gave no reason")))
    vars(error).update({key: value for key, value in problem.items() if key not in _STANDARD})
    return error


def _family(cls: type[SkepError]) -> Iterator[type[SkepError]]:
    yield cls
    for child in cls.__subclasses__():
        yield from _family(child)


_BY_NAME = {cls.__name__: cls for cls in _family(SkepError)}
