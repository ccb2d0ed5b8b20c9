"""Many long polls, clients that disconnect, and requests that are never finished."""

import asyncio
import os
import resource
from asyncio import StreamReader, StreamWriter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.xdist_group("crowd")

CROWD = 5_000
SOON = 60
"""Seconds after which a test takes it that something will never happen."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 20_000), most))
    with ServerProcess(tmp_path / "data", SKEP_RECEIVE_SECONDS="1") as server:
        yield server


class Waiter:
    """A long poll on a connection of its own."""

    def __init__(self, reader: StreamReader, writer: StreamWriter) -> None:
        self.writer = writer
        self.answer = asyncio.ensure_future(reader.readline())

    def leave(self) -> None:
        self.answer.cancel()
        self.writer.transport.abort()


async def connect(server: ServerProcess) -> tuple[StreamReader, StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))


async def wait_for_a_message(server: ServerProcess) -> Waiter:
    reader, writer = await connect(server)
    writer.write(
        b"GET /api/v1/pop/queue/rare?wait=true&timeout=600000 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    )
    await writer.drain()
    return Waiter(reader, writer)


async def crowd(server: ServerProcess, size: int) -> list[Waiter]:
    """So many long polls, each of which has arrived."""
    waiters = [await wait_for_a_message(server) for _ in range(size)]
    # Accepted after all of them, it is answered when they wait.
    await asyncio.to_thread(httpx.get, f"{server.url}/health/live")
    return waiters


async def push(server: ServerProcess, payload: int) -> None:
    async with httpx.AsyncClient(base_url=server.url, timeout=SOON) as http:
        item = {"queue": "rare", "payload": payload, "partition": f"p{payload}"}
        (await http.post("/api/v1/push", json={"items": [item]})).raise_for_status()


async def answered_by(server: ServerProcess, waiters: list[Waiter], payload: int) -> list[bytes]:
    """What those hear first who still wait when a message is pushed."""
    # Somebody may be answered before the push is.
    open_ = [waiter.answer for waiter in waiters if not waiter.answer.done()]
    await push(server, payload)
    done, _ = await asyncio.wait(open_, timeout=SOON, return_when=asyncio.FIRST_COMPLETED)
    return [answer.result() for answer in done]


def megabytes(server: ServerProcess) -> float:
    pages = int(Path(f"/proc/{server.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def test_one_message_wakes_one_of_many_long_polls(server: ServerProcess) -> None:
    waiters = await crowd(server, CROWD)

    answered = await answered_by(server, waiters, 1)
    # Who was woken in error would answer before this does.
    again = await answered_by(server, waiters, 2)

    assert (answered, again) == ([b"HTTP/1.1 200 OK\r\n"], [b"HTTP/1.1 200 OK\r\n"])
    assert sum(waiter.answer.done() for waiter in waiters) == 2
    for waiter in waiters:
        waiter.leave()


async def test_memory_is_freed_when_half_of_the_clients_disconnect(server: ServerProcess) -> None:
    before = megabytes(server)
    waiters = await crowd(server, CROWD)
    taken = megabytes(server) - before

    for waiter in waiters[: CROWD // 2]:
        waiter.leave()

    async with asyncio.timeout(SOON):
        while megabytes(server) - before > 0.8 * taken:
            # Each question lets it come round to it.
            await asyncio.to_thread(httpx.get, f"{server.url}/health/live")
    for waiter in waiters:
        waiter.leave()


async def test_a_disconnected_client_gets_no_message_and_holds_no_lease(
    server: ServerProcess,
) -> None:
    half = CROWD // 2
    waiters = await crowd(server, CROWD)
    before = megabytes(server)

    for _ in range(3):
        for waiter in waiters[:half]:
            waiter.leave()
        waiters = [*waiters[half:], *await crowd(server, half)]
    for number in range(20):
        await push(server, number)
    done, _ = await asyncio.wait([w.answer for w in waiters], timeout=2)

    assert len(done) == 20
    assert megabytes(server) < before + 20
    for waiter in waiters:
        waiter.leave()


@pytest.mark.parametrize(
    "beginning",
    [
        b"",
        b"GET /health HT",
        b"POST /api/v1/push HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
    ],
    ids=["nothing", "half a header", "half a body"],
)
async def test_a_request_that_is_never_finished_is_closed(
    server: ServerProcess, beginning: bytes
) -> None:
    reader, writer = await connect(server)
    writer.write(beginning)
    await writer.drain()

    async with asyncio.timeout(SOON):
        answer = await reader.read()

    assert answer.startswith(b"HTTP/1.1 408")
    writer.close()


async def test_headers_without_end_are_refused(server: ServerProcess) -> None:
    reader, writer = await connect(server)
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"a" * 100_000)

    async with asyncio.timeout(SOON):
        answer = await reader.read()

    assert answer.startswith(b"HTTP/1.1 431")
    writer.close()


async def test_a_body_that_is_too_large_is_refused(server: ServerProcess) -> None:
    async with httpx.AsyncClient(base_url=server.url, timeout=SOON) as http:
        declared = await http.post("/api/v1/push", content=b" " * (17 << 20))

    assert declared.status_code == 413


async def test_bytes_that_are_not_http_are_rejected(server: ServerProcess) -> None:
    reader, writer = await connect(server)
    writer.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")

    async with asyncio.timeout(SOON):
        answer = await reader.read()

    assert answer.startswith(b"HTTP/1.1 400")
    writer.close()


async def test_a_shutdown_answers_long_polls_and_exits_cleanly(server: ServerProcess) -> None:
    waiters = await crowd(server, 100)
    await push(server, 1)

    code = await asyncio.to_thread(server.end)

    done, open_ = await asyncio.wait([w.answer for w in waiters], timeout=SOON)
    answers = sorted(answer.result() for answer in done)
    assert (code, len(open_)) == (0, 0)
    assert answers[0].startswith(b"HTTP/1.1 200")
    assert answers[1:] == [b"HTTP/1.1 204 No Content\r\n"] * 99
    for waiter in waiters:
        waiter.leave()
