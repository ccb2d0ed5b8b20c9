"""Transports that lose things on the way, as networks do."""

import enum
from collections import deque

import httpx


class Fault(enum.Enum):
    NONE = "all is well"
    REFUSED = "nobody listens"
    REQUEST_LOST = "the connection breaks before the server has the request"
    ANSWER_LOST = "the connection breaks after the server has done what it was asked"


class Weather:
    """What happens to the next requests; then all is well."""

    def __init__(self) -> None:
        self.coming: deque[Fault] = deque()
        self.seen: list[tuple[str, Fault]] = []
        """The path of each request, and what happened to it."""

    def next(self, request: httpx.Request) -> Fault:
        fault = self.coming.popleft() if self.coming else Fault.NONE
        self.seen.append((request.url.path, fault))
        return fault

    def count(self, end: str) -> int:
        """How many requests went to a path that ends like this."""
        return sum(path.endswith(end) for path, _ in self.seen)


def break_before(fault: Fault) -> None:
    if fault is Fault.REFUSED:
        raise httpx.ConnectError("nobody listens")
    if fault is Fault.REQUEST_LOST:
        raise httpx.WriteError("broken pipe")


def break_after(fault: Fault) -> None:
    if fault is Fault.ANSWER_LOST:
        raise httpx.ReadError("connection reset by peer")


class Faulty(httpx.AsyncBaseTransport):
    def __init__(self, inner: httpx.AsyncBaseTransport, weather: Weather) -> None:
        self._inner = inner
        self._weather = weather

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        fault = self._weather.next(request)
        break_before(fault)
        response = await self._inner.handle_async_request(request)
        if fault is Fault.ANSWER_LOST:
            await response.aread()
            await response.aclose()
        break_after(fault)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class FaultyBlocking(httpx.BaseTransport):
    def __init__(self, inner: httpx.BaseTransport, weather: Weather) -> None:
        self._inner = inner
        self._weather = weather

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        fault = self._weather.next(request)
        break_before(fault)
        response = self._inner.handle_request(request)
        if fault is Fault.ANSWER_LOST:
            response.read()
            response.close()
        break_after(fault)
        return response

    def close(self) -> None:
        self._inner.close()
