"""Transports that lose things on the way, as networks do."""

import asyncio
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
        self._waiters: list[tuple[str, int, asyncio.Event]] = []

    def next(self, request: httpx.Request) -> Fault:
        fault = self.coming.popleft() if self.coming else Fault.NONE
        self.seen.append((request.url.path, fault))
        for end, count, came in self._waiters:
            if self.count(end) >= count:
                came.set()
        return fault

    async def until(self, end: str, count: int) -> None:
        """Wait for the request with this number to a path that ends like this."""
        came = asyncio.Event()
        if self.count(end) < count:
            self._waiters.append((end, count, came))
            await came.wait()

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


class Gate(httpx.AsyncBaseTransport):
    """Requests come to it, and go on one by one when the test says so."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner
        self._turns: list[asyncio.Future[Fault]] = []
        self._came = asyncio.Condition()
        self.is_open = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if not self.is_open:
            turn = asyncio.get_running_loop().create_future()
            async with self._came:
                self._turns.append(turn)
                self._came.notify_all()
            break_before(await turn)
        return await self._inner.handle_async_request(request)

    async def until(self, waiting: int) -> None:
        """Wait until so many requests stand before the gate."""
        async with self._came:
            await self._came.wait_for(lambda: len(self._turns) >= waiting)

    @property
    def waiting(self) -> int:
        return len(self._turns)

    def let(self, fault: Fault = Fault.NONE) -> None:
        """Let the one go on that came first."""
        self._turns.pop(0).set_result(fault)

    def open(self) -> None:
        """Let all go on, those to come too."""
        self.is_open = True
        while self._turns:
            self.let()

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
