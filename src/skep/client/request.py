"""Requests and answers as both clients see them, and what it means when a connection fails."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from ssl import SSLContext
from typing import Any, TypeVar

import httpx
import msgspec

from skep.client.retry import RequestFailure
from skep.errors import Invalid, OutcomeUnknown, Unavailable
from skep.model.name import MAX_NUMBER, check_count, from_datetime
from skep.wire import problem
from skep.wire.body import encode

LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=100)
"""Each long poll holds a connection: a limit would make pushes wait for pops."""

PAGE = 1000
"""Entries of a list that are asked for at a time."""
STEP = 200
"""Numbers that go into one request: more would make its path too long."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """``repeatable`` if a second time does no harm although the first may have been carried out.
    ``last_counts`` if the last answer is then the truth, whatever became of the first."""

    method: str
    path: str
    query: Mapping[str, str] | None = None
    body: bytes | None = None
    wait: float = 0.0
    """Seconds that the server may take on purpose."""
    repeatable: bool = False
    last_counts: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """``uncertain`` if an attempt before it may have been carried out, too."""

    content: bytes
    uncertain: bool

    def decode(self, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(self.content or b"{}", type=kind)
        except (msgspec.DecodeError, RecursionError) as error:
            raise OutcomeUnknown(f"the answer makes no sense: {error}") from None


def read(path: str, **query: Any) -> Request:
    return Request("GET", path, to_query(query), repeatable=True, last_counts=True)


def delete(path: str, **query: Any) -> Request:
    # Not repeatable: somebody may have made anew by then what has its name.
    return Request("DELETE", path, to_query(query))


def post(path: str, body: object, *, repeatable: bool, last_counts: bool = False) -> Request:
    content = _content(body)
    return Request("POST", path, body=content, repeatable=repeatable, last_counts=last_counts)


def put(path: str, body: object) -> Request:
    return Request("PUT", path, body=_content(body), repeatable=True, last_counts=True)


def _content(body: object) -> bytes:
    try:
        return encode(body)
    except UnicodeEncodeError:
        raise Invalid("request", "must be valid Unicode, without lone surrogates") from None


def to_query(values: Mapping[str, Any]) -> dict[str, str]:
    """Values as a query has them; what is None is left out, and so is a ``_`` behind a name."""
    return {name.rstrip("_"): _text(value) for name, value in values.items() if value is not None}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime) else str(value)


def steps(numbers: Sequence[int]) -> Iterator[list[int]]:
    """Numbers of dead letters, as many at a time as go into a request."""
    if isinstance(numbers, str | bytes) or not isinstance(numbers, Sequence):
        raise Invalid("numbers", "must be a sequence of numbers")
    for number in numbers:
        check_count("numbers", number, most=MAX_NUMBER)
    for start in range(0, len(numbers), STEP):
        yield list(numbers[start : start + STEP])


def check_moment(field: str, moment: datetime | None) -> datetime | None:
    """A moment, if there is one; without a time zone it could mean anything."""
    if moment is not None:
        from_datetime(field, moment)
    return moment


def failure_of(error: httpx.RequestError) -> RequestFailure:
    """What it means that there is no answer."""
    words = str(error) or type(error).__name__
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        return RequestFailure(Unavailable(f"the server cannot be reached: {words}"), error)
    return RequestFailure(OutcomeUnknown(f"the answer was lost: {words}"), error)


def refusal_of(response: httpx.Response) -> RequestFailure:
    """What it means that the answer is not a good one."""
    error = problem.from_response(response.status_code, response.content)
    after = response.headers.get("retry-after", "")
    if response.status_code in (429, 503) and after.isdigit():
        return RequestFailure(error, retry_after=float(after))
    return RequestFailure(error)


def check_url(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        raise Invalid("url", f"{url!r} is not a URL") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise Invalid("url", f"{url!r} must begin with http:// or https:// and name a host")
    return parsed


def settings_of(
    url: httpx.URL, token: str | None, timeout: float, verify: bool | SSLContext
) -> dict[str, Any]:
    """What both kinds of httpx's clients are made with."""
    if token is not None and not (token.isascii() and token.isprintable() and token.strip()):
        raise Invalid("token", "must be printable text in ASCII")
    return {
        "base_url": url,
        "headers": {"Content-Type": "application/json"}
        | ({"Authorization": f"Bearer {token}"} if token else {}),
        "timeout": timeout,
        "limits": LIMITS,
        # Without TLS, loading the certificates of the system would only take time.
        "verify": verify if url.scheme == "https" else False,
        # A proxy or a certificate comes from who makes the client, not from its surroundings.
        "trust_env": False,
    }
