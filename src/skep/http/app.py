"""The ASGI application: finds the route, authenticates, decodes, handles, responds.

Plain ASGI: on this path a framework costs as much as the queue itself (docs/adr/0009).
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from inspect import isawaitable
from typing import Any, TypeAlias

from skep.core.broker import Broker
from skep.core.state import quota
from skep.errors import Invalid, QuotaExceeded, RateLimited, SkepError, TooLarge
from skep.http.auth.authenticator import Authenticator
from skep.http.auth.cors import Origins
from skep.http.auth.principal import Permission, Principal
from skep.http.body_budget import BodyBudget
from skep.http.codec import decode_body, decode_query
from skep.http.large_body import decode_large, is_large
from skep.http.limits import HttpLimits
from skep.http.problems import as_sent, to_response
from skep.http.process.server_info import ServerInfo
from skep.http.rate_limit import RateLimit
from skep.http.request import (
    WHOLE_RESPONSE,
    Headers,
    HttpRequest,
    HttpResponse,
    Receive,
    Scope,
    Send,
)
from skep.http.routing import Route, Router
from skep.wire.body import encode

_log = logging.getLogger("skep.http")
_Headers: TypeAlias = dict[bytes, bytes]
_SAFE: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]
"""Headers of every response, for browsers and caches."""
_HEAD = b"".join(b"%b: %b\r\n" % each for each in _SAFE) + b"content-type: %b\r\n"
_HEAD_WITH_LENGTH = _HEAD + b"content-length: %d\r\n"
_UNIQUE = frozenset(
    {
        b"authorization",
        b"content-length",
        b"host",
        b"origin",
        b"referer",
        b"sec-fetch-site",
        b"transfer-encoding",
        b"x-api-key",
    }
)
"""Headers that decide the caller, the page and the end of a request. With two of one name, two
readers could each use another one."""


class App:
    def __init__(
        self,
        broker: Broker,
        routes: Sequence[Route],
        *,
        authenticator: Authenticator,
        origins: Origins | None = None,
        limits: HttpLimits | None = None,
    ) -> None:
        self._broker = broker
        self._router = Router(routes)
        self._authenticator = authenticator
        self._origins = origins or Origins()
        self._limits = limits or HttpLimits()
        self._rates = RateLimit()
        self.server_info = ServerInfo(bodies=BodyBudget(self._limits.unfinished_bytes))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1003})
            return
        if scope["type"] != "http":
            raise RuntimeError(f"unsupported ASGI scope: {scope['type']}")
        headers: _Headers = dict(scope["headers"])
        origin = headers.get(b"origin", b"")
        route_path = "unknown"
        try:
            _check_headers(scope, headers)
            self._origins.check(headers)
            route, values = self._find(scope)
            route_path = route.path
            response = await self._handle(route, values, scope, headers, receive)
        except SkepError as error:
            if isinstance(error, QuotaExceeded | RateLimited):
                self.server_info.quota_rejections[error.quota] += 1
            response = to_response(error)
        except _EarlyResponse as early:
            response = early.response
        except Exception:
            _log.exception("request failed: method=%s route=%s", scope["method"], route_path)
            response = HttpResponse({"error": "internal server error; see the server's log"}, 500)
        self.server_info.responses[scope["method"], route_path, response.status] += 1
        # The extension refers back to the scope: left there, every request would wait for the
        # collector.
        whole = scope.pop("extensions", {}).get(WHOLE_RESPONSE)
        if isinstance(response.content, AsyncGenerator):
            await self._stream(response, response.content, origin, receive, send)
        else:
            await self._respond(whole, response, origin, send)

    def _find(self, scope: Scope) -> tuple[Route, tuple[str, ...]]:
        matched = self._router.find(scope["raw_path"])
        if matched is None:
            raise _EarlyResponse(HttpResponse({"error": "no such path; see /docs"}, 404))
        by_method, values = matched
        method = scope["method"]
        route = by_method.get("GET" if method == "HEAD" else method)
        # A pop leases messages: a HEAD request would lose them.
        if route is None or (method == "HEAD" and route.needs is Permission.POP):
            raise _EarlyResponse(_method_not_allowed(method, by_method))
        return route, values

    async def _handle(
        self,
        route: Route,
        values: tuple[str, ...],
        scope: Scope,
        headers: _Headers,
        receive: Receive,
    ) -> HttpResponse:
        authenticate = partial(
            self._authenticator.authenticate,
            route.needs,
            headers.get(b"authorization", b""),
            headers.get(b"x-api-key", b""),
        )
        principal = await authenticate()
        self._limit(principal)
        principal.check(route.needs)
        params = dict(zip(route.names, values, strict=True)) if values else {}
        request = HttpRequest(
            self._broker, principal, params, receive, self.server_info, authenticate
        )
        if route.query is not None:
            request.query = decode_query(route.query, scope["query_string"])
        limit = self._limits.body_bytes
        if route.body is not None:
            body = await self._read(headers, receive, min(route.body_bytes, limit))
            if is_large(body):
                request.body = await decode_large(route.body, body)
            else:
                request.body = decode_body(route.body, body)
        elif route.takes is not None:
            request.body = await self._read(headers, receive, limit)
        try:
            return await _handle(route, request)
        except Invalid as error:
            raise as_sent(error, route, request.origins()) from None

    def _limit(self, principal: Principal) -> None:
        """Apply the rate limit, and count what the request creates against the caller's quota."""
        if principal.quota and principal.quota.requests:
            self._rates.take(principal.id, principal.quota.requests)
        quota.principal.set(principal)

    async def _read(self, headers: _Headers, receive: Receive, limit: int) -> bytes:
        """The whole body; raises ``TooLarge`` beyond ``limit`` bytes."""
        if headers.get(b"content-encoding", b"identity") not in (b"", b"identity"):
            raise Invalid("Content-Encoding", "is not supported")
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length[:20]) > limit:
            raise TooLarge("body", f"is larger than {limit} bytes")
        parts, size, more = [], 0, True
        while more:
            event = await receive()
            if event["type"] == "http.disconnect":
                raise Invalid("body", "ended before it was complete")
            parts.append(event["body"])
            size += len(parts[-1])
            if size > limit:
                raise TooLarge("body", f"is larger than {limit} bytes")
            more = event.get("more_body", False)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _stream(
        self,
        response: HttpResponse,
        pieces: AsyncGenerator[bytes, None],
        origin: bytes,
        receive: Receive,
        send: Send,
    ) -> None:
        """Send a response in pieces, as fast as the client reads it, until it disconnects."""
        headers = [(b"content-type", response.media_type), *_SAFE]
        if origin:
            headers += self._origins.headers(origin)
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        disconnected = asyncio.ensure_future(receive())
        try:
            async for piece in pieces:
                if disconnected.done():
                    return
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            disconnected.cancel()
            await pieces.aclose()

    async def _respond(
        self, whole: dict[str, Any] | None, response: HttpResponse, origin: bytes, send: Send
    ) -> None:
        body = _encoded(response.content)
        if whole and not (origin or response.headers):
            if response.status == 204:
                head = _HEAD % response.media_type
            else:
                head = _HEAD_WITH_LENGTH % (response.media_type, len(body))
            if whole["send"](response.status, head, body):
                return
        headers = [(b"content-type", response.media_type), *_SAFE, *response.headers]
        if response.status != 204:
            headers.append((b"content-length", b"%d" % len(body)))
        if origin:
            headers += self._origins.headers(origin)
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


async def _handle(route: Route, request: HttpRequest) -> HttpResponse:
    if request.principal.restricted:
        queues = route.queues(request)
        request.principal.check_queues(await queues if isawaitable(queues) else queues)
    return await route.handler(request)


class _EarlyResponse(Exception):
    """A request without a route, and the response to it."""

    def __init__(self, response: HttpResponse) -> None:
        self.response = response


def _method_not_allowed(method: str, by_method: dict[str, Route]) -> HttpResponse:
    allowed = ", ".join(sorted(by_method)).encode()
    if method == "OPTIONS":
        return HttpResponse(status=204, headers=((b"allow", allowed),))
    return HttpResponse(
        {"error": f"method {method} not allowed; allowed: {allowed.decode()}"},
        405,
        headers=((b"allow", allowed),),
    )


def _encoded(content: object) -> bytes:
    if content is None:
        return b""
    return content if isinstance(content, bytes) else encode(content)


def _check_headers(scope: Scope, headers: _Headers) -> None:
    """Reject requests that two readers could interpret differently."""
    if len(headers) == len(scope["headers"]) and b"host" in headers:
        return
    names = [name for name, _ in scope["headers"] if name in _UNIQUE]
    for name in names:
        if names.count(name) > 1:
            raise _ambiguous(f"duplicate header: {name.decode().title()}")
    if b"host" not in headers and scope["http_version"] == "1.1":
        raise _ambiguous("HTTP/1.1 requires a Host header")


def _ambiguous(reason: str) -> _EarlyResponse:
    return _EarlyResponse(
        HttpResponse({"error": reason}, 400, headers=((b"connection", b"close"),))
    )
