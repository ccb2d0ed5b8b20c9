"""The door as an ASGI application: find the route, ask who it is, decode, handle, answer.

Plain ASGI: on this path a framework costs as much as the queue itself (docs/adr/0009).
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from inspect import isawaitable
from typing import TypeAlias

from skep.core.broker import Broker
from skep.errors import Invalid, SkepError, TooLarge
from skep.http.auth import Authenticator
from skep.http.call import ANSWER, Call, Receive, Reply, Scope, Send
from skep.http.codec import decode_body, decode_query
from skep.http.door import Door
from skep.http.limits import DoorLimits
from skep.http.origin import Origins
from skep.http.problems import as_sent, to_reply
from skep.http.routing import Route, Router
from skep.wire.body import encode

_log = logging.getLogger("skep.http")
_Headers: TypeAlias = dict[bytes, bytes]
_NOSNIFF = (b"x-content-type-options", b"nosniff")


class App:
    def __init__(
        self,
        broker: Broker,
        routes: Sequence[Route],
        *,
        authenticator: Authenticator,
        origins: Origins | None = None,
        limits: DoorLimits | None = None,
    ) -> None:
        self._broker = broker
        self._router = Router(routes)
        self._authenticator = authenticator
        self._origins = origins or Origins()
        self._limits = limits or DoorLimits()
        self.door = Door()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1003})
            return
        if scope["type"] != "http":
            raise RuntimeError(f"the door does not speak {scope['type']}")
        headers: _Headers = dict(scope["headers"])
        origin = headers.get(b"origin", b"")
        place = "unknown"
        try:
            self._origins.check(origin, headers.get(b"host", b""))
            route, values = self._find(scope)
            place = route.path
            reply = await self._handle(route, values, scope, headers, receive)
        except SkepError as error:
            reply = to_reply(error)
        except _Elsewhere as elsewhere:
            reply = elsewhere.reply
        except Exception:
            _log.exception("%s %s failed", scope["method"], place)
            reply = Reply({"error": "the server has failed; its log says why"}, 500)
        self.door.answers[scope["method"], place, reply.status] += 1
        if isinstance(reply.content, AsyncGenerator):
            await self._stream(reply, reply.content, origin, receive, send)
        else:
            await self._answer(scope, reply, origin, send)

    def _find(self, scope: Scope) -> tuple[Route, tuple[str, ...]]:
        found = self._router.find(scope["raw_path"])
        if found is None:
            raise _Elsewhere(Reply({"error": "there is nothing at this path; see /docs"}, 404))
        by_method, values = found
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        route = by_method.get(method)
        if route is None:
            raise _Elsewhere(_not_so(method, by_method))
        return route, values

    async def _handle(
        self,
        route: Route,
        values: tuple[str, ...],
        scope: Scope,
        headers: _Headers,
        receive: Receive,
    ) -> Reply:
        principal = await self._authenticator.authenticate(
            route.needs, headers.get(b"authorization", b""), headers.get(b"x-api-key", b"")
        )
        principal.check(route.needs)
        params = dict(zip(route.names, values, strict=True)) if values else {}
        call = Call(self._broker, principal, params, receive, self.door)
        if route.query is not None:
            call.query = decode_query(route.query, scope["query_string"])
        if route.body is not None:
            call.body = decode_body(route.body, await self._read(headers, receive))
        elif route.takes is not None:
            call.body = await self._read(headers, receive)
        try:
            return await _handle(route, call)
        except Invalid as error:
            raise as_sent(error, route) from None

    async def _read(self, headers: _Headers, receive: Receive) -> bytes:
        """The whole body, if it is not too large and does not take too long."""
        most = self._limits.body_bytes
        if headers.get(b"content-encoding", b"identity") not in (b"", b"identity"):
            raise Invalid("Content-Encoding", "must not be used")
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length[:20]) > most:
            raise TooLarge("body", f"is larger than {most} bytes")
        event = await receive()
        if not event.get("more_body"):
            return _some(event)
        try:
            async with asyncio.timeout(self._limits.receive_seconds):
                return await _rest(_some(event), receive, most)
        except TimeoutError:
            raise _Elsewhere(_TOO_SLOW) from None

    async def _stream(
        self,
        reply: Reply,
        pieces: AsyncGenerator[bytes, None],
        origin: bytes,
        receive: Receive,
        send: Send,
    ) -> None:
        """Send an answer piece by piece, as fast as the client takes it and as long as it does."""
        headers = [(b"content-type", reply.media_type), _NOSNIFF]
        if origin:
            headers += self._origins.headers(origin)
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        gone = asyncio.ensure_future(receive())
        try:
            async for piece in pieces:
                if gone.done():
                    return
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()
            await pieces.aclose()

    async def _answer(self, scope: Scope, reply: Reply, origin: bytes, send: Send) -> None:
        body = _encoded(reply.content)
        headers = [(b"content-type", reply.media_type), _NOSNIFF]
        if reply.status != 204:
            headers.append((b"content-length", b"%d" % len(body)))
        if origin:
            headers += self._origins.headers(origin)
        whole = scope.get("extensions", {}).get(ANSWER)
        if whole and not reply.headers and whole["send"](reply.status, headers, body):
            return
        headers += reply.headers
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


async def _handle(route: Route, call: Call) -> Reply:
    if call.principal.restricted:
        queues = route.queues(call)
        call.principal.check_queues(await queues if isawaitable(queues) else queues)
    return await route.handler(call)


class _Elsewhere(Exception):
    """There is no such route, and this says so."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply


_TOO_SLOW = Reply(
    {"error": "the request took too long to arrive"}, 408, headers=((b"connection", b"close"),)
)


def _not_so(method: str, by_method: dict[str, Route]) -> Reply:
    allowed = ", ".join(sorted(by_method)).encode()
    if method == "OPTIONS":
        return Reply(status=204, headers=((b"allow", allowed),))
    return Reply(
        {"error": f"{method} is not possible here, but {allowed.decode()} is"},
        405,
        headers=((b"allow", allowed),),
    )


def _encoded(content: object) -> bytes:
    if content is None:
        return b""
    return content if isinstance(content, bytes) else encode(content)


def _some(event: object) -> bytes:
    body: bytes = event["body"] if event["type"] == "http.request" else b""  # type: ignore[index]
    return body


async def _rest(begin: bytes, receive: Receive, most: int) -> bytes:
    parts, size, more = [begin], len(begin), True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise Invalid("body", "ended before it was complete")
        parts.append(event.get("body", b""))
        size += len(parts[-1])
        if size > most:
            raise TooLarge("body", f"is larger than {most} bytes")
        more = event.get("more_body", False)
    return b"".join(parts)
