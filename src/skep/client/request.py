"""Requests and responses of both clients, and the errors of failed requests."""

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
"""Each long poll holds a connection: with a limit, pushes would wait for pops."""

PAGE = 1000
"""Entries per page of a list."""
STEP = 200
"""Numbers per request: more would make its path too long."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A request that a connection sends, and sends again if that is safe.

    ``repeatable``: it may be sent again although an earlier attempt may have been carried out.
    ``last_counts``: the last response then holds, whatever an earlier attempt did.
    """

    method: str
    path: str
    query: Mapping[str, str] | None = None
    body: bytes | None = None
    wait: float = 0.0
    """Seconds that a long poll may take in addition to the timeout."""
    repeatable: bool = False
    last_counts: bool = False


@dataclass(frozen=True, slots=True)
class ClientResponse:
    """``uncertain``: an earlier attempt at the request may have been carried out, too."""

    content: bytes
    uncertain: bool

    def decode(self, kind: type[T]) -> T:
        """Return the body as a ``kind``; raise ``OutcomeUnknown`` if it is something else."""
        try:
            return msgspec.json.decode(self.content or b"{}", type=kind)
        except (msgspec.DecodeError, RecursionError) as error:
            raise OutcomeUnknown(f"could not decode the server's response: {error}") from None


def read(path: str, **query: Any) -> ClientRequest:
    return ClientRequest("GET", path, to_query(query), repeatable=True, last_counts=True)


def delete(path: str, **query: Any) -> ClientRequest:
    # Not repeatable: another client may have created a resource of the same name meanwhile.
    return ClientRequest("DELETE", path, to_query(query))


def post(path: str, body: object, *, repeatable: bool, last_counts: bool = False) -> ClientRequest:
    content = _content(body)
    return ClientRequest("POST", path, body=content, repeatable=repeatable, last_counts=last_counts)


def put(path: str, body: object) -> ClientRequest:
    return ClientRequest("PUT", path, body=_content(body), repeatable=True, last_counts=True)


def _content(body: object) -> bytes:
    try:
        return encode(body)
    except UnicodeEncodeError:
        raise Invalid("request", "must be valid Unicode, without lone surrogates") from None


def to_query(values: Mapping[str, Any]) -> dict[str, str]:
    """Return values as a query string needs them, without those that are None.

    A trailing ``_`` is removed from names.
    """
    return {name.rstrip("_"): _text(value) for name, value in values.items() if value is not None}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime) else str(value)


def steps(numbers: Sequence[int]) -> Iterator[list[int]]:
    """Yield numbers of dead letters in lists that fit into a request."""
    if isinstance(numbers, str | bytes) or not isinstance(numbers, Sequence):
        raise Invalid("numbers", "must be a sequence of numbers")
    for number in numbers:
        check_count("numbers", number, most=MAX_NUMBER)
    for start in range(0, len(numbers), STEP):
        yield list(numbers[start : start + STEP])


def check_moment(field: str, moment: datetime | None) -> datetime | None:
    """Return the instant; raise ``Invalid`` if it has no time zone."""
    if moment is not None:
        from_datetime(field, moment)
    return moment


def failure_of(error: httpx.RequestError) -> RequestFailure:
    """Return the failure of a request that got no response."""
    reason = str(error) or type(error).__name__
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        return RequestFailure(Unavailable(f"the server cannot be reached: {reason}"), error)
    return RequestFailure(OutcomeUnknown(f"the server's response was lost: {reason}"), error)


def rejection_of(response: httpx.Response) -> RequestFailure:
    """Return the failure of a request that the server answered with an error."""
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
    """Return the arguments of both kinds of httpx clients."""
    if token is not None and not (token.isascii() and token.isprintable() and token.strip()):
        raise Invalid("token", "must be printable ASCII text")
    return {
        "base_url": url,
        "headers": {"Content-Type": "application/json"}
        | ({"Authorization": f"Bearer {token}"} if token else {}),
        "timeout": timeout,
        "limits": LIMITS,
        # Without TLS, loading the certificates of the system only takes time.
        "verify": verify if url.scheme == "https" else False,
        # Proxies and certificates come from the caller, not from the environment.
        "trust_env": False,
    }
