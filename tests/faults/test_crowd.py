"""Many who wait, some who go, and some who never finish what they send."""

import asyncio
import os
import resource
from asyncio import StreamReader, StreamWriter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.serving import ServerProcess

pytestmark = pytest.mark.xdist_group("crowd")

CROWD = int(os.environ.get("SKEP_CROWD", "1000"))
"""``make test-long`` lets five thousand wait."""
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
    return [await wait_for_a_message(server) for _ in range(size)]


async def push(server: ServerProcess, payload: int) -> None:
    async with httpx.AsyncClient(base_url=server.url, timeout=SOON) as http:
        item = {"queue": "rare", "payload": payload, "partition": f"p{payload}"}
        (await http.post("/api/v1/push", json={"items": [item]})).raise_for_status()


async def first_answered(waiters: list[Waiter]) -> list[bytes]:
    done, _ = await asyncio.wait(
        [waiter.answer for waiter in waiters],
        timeout=SOON,
        return_when=asyncio.FIRST_COMPLETED,
    )
    return [answer.result() for answer in done]


def megabytes(server: ServerProcess) -> float:
    pages = int(Path(f"/proc/{server.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def test_one_message_wakes_one_of_a_crowd(server: ServerProcess) -> None:
    waiters = await crowd(server, CROWD)

    await push(server, 1)
    answered = await first_answered(waiters)
    # Who was woken in error would answer before this does.
    await push(server, 2)
    again = await first_answered([w for w in waiters if not w.answer.done()])

    assert (answered, again) == ([b"HTTP/1.1 200 OK\r\n"], [b"HTTP/1.1 200 OK\r\n"])
    assert sum(waiter.answer.done() for waiter in waiters) == 2
    for waiter in waiters:
        waiter.leave()


async def test_who_has_gone_gets_nothing_and_keeps_nothing(server: ServerProcess) -> None:
    waiters = await crowd(server, 1_000)
    before = megabytes(server)

    for _ in range(3):
        for waiter in waiters[:500]:
            waiter.leave()
        waiters = [*waiters[500:], *await crowd(server, 500)]
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
async def test_who_does_not_finish_is_cut_off(server: ServerProcess, beginning: bytes) -> None:
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


async def test_what_is_not_http_is_refused(server: ServerProcess) -> None:
    reader, writer = await connect(server)
    writer.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")

    async with asyncio.timeout(SOON):
        answer = await reader.read()

    assert answer.startswith(b"HTTP/1.1 400")
    writer.close()


async def test_a_stop_answers_who_waits_and_ends_in_order(server: ServerProcess) -> None:
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
