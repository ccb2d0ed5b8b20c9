"""How long messages take from the push to a waiting consumer, while others are pushed.

An ordinary HTTP client takes longer for a request than the server does, so both ends are bare
connections here: a request is bytes that are there already, an answer is read as far as it must be.
"""

import asyncio
import time
from collections import deque
from typing import cast

import msgspec
import uvloop

PUSHERS = 32
CONSUMERS = 4
PARTITIONS = 100
_POP = (
    f"GET /api/v1/pop/queue/timed?wait=true&timeout=5000&batch=1000&partitions={PARTITIONS}"
    "&autoAck=true HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
).encode()


class _Timed(msgspec.Struct):
    data: float


class _Popped(msgspec.Struct):
    messages: list[_Timed]


_decode = msgspec.json.Decoder(_Popped).decode


class Connection(asyncio.Protocol):
    """One request at a time, and the body of its answer."""

    def __init__(self) -> None:
        self._buffer = b""
        self._answer: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def ask(self, request: bytes) -> asyncio.Future[bytes]:
        self.transport.write(request)
        self._answer = asyncio.get_running_loop().create_future()
        return self._answer

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, end, body = self._buffer.partition(b"\r\n\r\n")
        if not end or self._answer is None:
            return
        length = int(head.partition(b"content-length: ")[2].partition(b"\r")[0] or 0)
        if len(body) >= length:
            self._buffer = b""
            # At the end nobody waits for it any more.
            if not self._answer.done():
                self._answer.set_result(body)


async def connect(url: str) -> Connection:
    host, _, port = url.removeprefix("http://").partition(":")
    _, connection = await asyncio.get_running_loop().create_connection(Connection, host, int(port))
    return connection


def _push(number: int) -> bytes:
    body = b'{"items":[{"queue":"timed","partition":"p%d","payload":%.9f}]}' % (
        number % PARTITIONS,
        time.perf_counter(),
    )
    return b"POST /api/v1/push HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )


class Load:
    """Pushes at a steady rate, and consumers that keep up."""

    def __init__(self, pushed_at: str, popped_at: str) -> None:
        self._pushed_at = pushed_at
        self._popped_at = popped_at
        self.taken: list[float] = []

    async def run(self, rate: float, seconds: float) -> None:
        total = round(rate * seconds)
        consumers = [asyncio.ensure_future(self._consume(total)) for _ in range(CONSUMERS)]
        await self._push(total, rate)
        await asyncio.gather(*consumers)

    async def _push(self, total: int, rate: float) -> None:
        idle = deque([await connect(self._pushed_at) for _ in range(PUSHERS)])
        free = asyncio.Semaphore(PUSHERS)
        begin = time.perf_counter()
        for number in range(total):
            early = begin + number / rate - time.perf_counter()
            if early > 0.001:
                await asyncio.sleep(early)
            await free.acquire()
            connection = idle.popleft()

            def done(_: object, connection: Connection = connection) -> None:
                idle.append(connection)
                free.release()

            connection.ask(_push(number)).add_done_callback(done)

    async def _consume(self, total: int) -> None:
        connection = await connect(self._popped_at)
        while len(self.taken) < total:
            body = await connection.ask(_POP)
            now = time.perf_counter()
            if body:
                self.taken.extend(now - message.data for message in _decode(body).messages)


def measure(url: str, rate: float, seconds: float, *, popped_at: str | None = None) -> list[float]:
    """Seconds that each message took, sorted; to a consumer at the same server, or at another."""
    load = Load(url, popped_at or url)
    uvloop.run(load.run(rate, seconds))
    return sorted(load.taken)
