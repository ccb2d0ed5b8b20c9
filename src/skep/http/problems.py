"""Errors as HTTP responses: the status, and the headers that clients need."""

import math

from skep import errors
from skep.http.request import HttpResponse
from skep.http.routing import Route
from skep.wire.field_path import Origins, to_request, words_of
from skep.wire.problem import to_problem

STATUS: dict[type[errors.SkepError], int] = {
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.QueueFull: 429,
    errors.Invalid: 400,
    errors.TooLarge: 413,
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.Unavailable: 503,
    errors.Overloaded: 429,
    errors.RateLimited: 429,
    errors.OutcomeUnknown: 504,
    errors.SkepError: 500,
}
RETRY_AFTER = 1.0
"""Default for ``Retry-After``, in seconds."""


def status_of(error: errors.SkepError) -> int:
    """The status of the nearest ancestor that has one."""
    return next(STATUS[cls] for cls in type(error).__mro__ if cls in STATUS)


def as_sent(error: errors.Invalid, route: Route, origins: Origins) -> errors.Invalid:
    """The error with its field named as in the request."""
    words = {**words_of(route.body), **words_of(route.query), **route.fields}
    return to_request(error, words, origins)


def to_response(error: errors.SkepError) -> HttpResponse:
    status = status_of(error)
    headers: tuple[tuple[bytes, bytes], ...] = ()
    if status in (429, 503):
        seconds = math.ceil(getattr(error, "retry_after", RETRY_AFTER))
        headers = ((b"retry-after", str(seconds).encode()),)
    elif status == 401:
        headers = ((b"www-authenticate", b"Bearer"),)
    return HttpResponse(to_problem(error, status), status, headers=headers)
