"""Requests that are wrong in ways that no client writes by accident."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.xdist_group("malformed")

BODY = b'{"items":[{"queue":"q","payload":1}]}'
PUSH = b"POST /api/v1/push HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    path: Path = tmp_path_factory.mktemp("tricks") / "data"
    with ServerProcess(path, SKEP_RECEIVE_SECONDS="1") as server:
        yield server


async def send(server: ServerProcess, data: bytes) -> bytes:
    """Everything that comes back until the server hangs up or has nothing more to say."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    answer = b""
    try:
        writer.write(data)
        async with asyncio.timeout(3):
            while some := await reader.read(65536):
                answer += some
    except (TimeoutError, ConnectionError):
        pass
    finally:
        writer.close()
    return answer


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


def close(data: bytes) -> bytes:
    return data.replace(b"Host: localhost\r\n", b"Host: localhost\r\nConnection: close\r\n")


@pytest.mark.parametrize(
    "data",
    [
        PUSH + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        PUSH + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        PUSH + b"Content-Length: -1\r\n\r\n",
        PUSH + b"Content-Length: 99999999999999999999\r\n\r\n",
        PUSH + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n",
        PUSH + b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08",
        PUSH + b"Content-Length: 0\r\n\r\n",
        b"GET /%ff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /api/v1/pop/queue/%ff%fe HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /api/v1/pop/queue/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /api/v1/pop/queue/q?batch=1&batch=%zz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /api/v1/../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET //api/v1/push HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /api/v1/push/%2e%2e HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"TRACE /api/v1/push HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"DELETE /api/v1/push HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /docs HTTP/1.1\r\nHost: a/?x=\r\n\r\n",
        b"GET /docs HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
        b"GET /docs HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 65536 + b"\r\n\r\n",
        b"GET / " * 20000,
    ],
    ids=range(20),
)
async def test_a_malformed_request_is_rejected(server: ServerProcess, data: bytes) -> None:
    answer = await send(server, close(data))

    assert 400 <= status(answer) < 500, answer[:300]
    assert b'"error"' in answer
    assert b"Traceback" not in answer


async def test_a_body_in_chunks_is_a_body(server: ServerProcess) -> None:
    chunks = b"".join(b"%x\r\n%s\r\n" % (1, bytes([byte])) for byte in BODY) + b"0\r\n\r\n"

    answer = await send(server, close(PUSH) + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)

    assert status(answer) == 201


async def test_pipelined_requests_are_answered_in_order(server: ServerProcess) -> None:
    push = PUSH + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
    last = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

    answer = await send(server, push + push + last)

    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"201", b"201", b"404"]


@pytest.mark.parametrize("extra", [-1, 0, 1])
async def test_the_limit_of_a_body_is_exact(tmp_path: Path, extra: int) -> None:
    with ServerProcess(tmp_path / "data", SKEP_BODY_BYTES="1000") as server:
        body = BODY.replace(b"1}", b'"%s"}' % (b"x" * (1000 + extra - len(BODY) - 1)))
        async with httpx.AsyncClient(base_url=server.url) as http:
            answer = await http.post("/api/v1/push", content=body)

    assert len(body) == 1000 + extra
    assert answer.status_code == (413 if extra > 0 else 201)


async def test_head_answers_as_get_does_without_the_body(server: ServerProcess) -> None:
    async with httpx.AsyncClient(base_url=server.url) as http:
        head, get = await http.head("/docs"), await http.get("/docs")

    assert head.status_code == get.status_code == 200
    assert head.content == b""


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Host": "evil.example:6632"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Referer": "https://evil.example/"},
        {"Sec-Fetch-Site": "made-up"},
        {"Referer": "https://evil.example/page"},
        {"Referer": "http://127.0.0.1.evil.example/"},
        {"Referer": "nonsense"},
    ],
)
async def test_a_page_of_another_site_is_refused(
    server: ServerProcess, headers: dict[str, str]
) -> None:
    async with httpx.AsyncClient(base_url=server.url) as http:
        answer = await http.post("/api/v1/push", content=BODY, headers=headers)

    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("site", ["none", "same-origin", None])
async def test_a_page_of_the_server_itself_is_served(
    server: ServerProcess, site: str | None
) -> None:
    headers = {"Sec-Fetch-Site": site} if site else {"Referer": f"{server.url}/docs"}
    async with httpx.AsyncClient(base_url=server.url) as http:
        answer = await http.get("/openapi.json", headers=headers)

    assert answer.status_code == 200


def test_an_element_of_a_site_that_is_allowed_is_served(tmp_path: Path) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Referer": "https://ops.example/page?x"}
    with ServerProcess(tmp_path / "data", SKEP_CORS_ORIGINS="https://ops.example") as server:
        answer = httpx.get(f"{server.url}/docs", headers=headers)

    assert answer.status_code == 200


async def test_head_takes_no_messages(server: ServerProcess) -> None:
    async with httpx.AsyncClient(base_url=server.url) as http:
        await http.post("/api/v1/push", content=BODY)
        queue = json.loads(BODY)["items"][0]["queue"]
        head = await http.head(f"/api/v1/pop/queue/{queue}?autoAck=true")
        pop = await http.get(f"/api/v1/pop/queue/{queue}?autoAck=true")

    assert (head.status_code, head.headers["allow"], pop.status_code) == (405, "GET", 200)


async def test_the_page_of_a_site_that_is_allowed_may_read(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", SKEP_CORS_ORIGINS="https://ops.example") as server:
        async with httpx.AsyncClient(base_url=server.url) as http:
            asked = await http.options("/api/v1/push", headers={"Origin": "https://ops.example"})

    assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (
        204,
        "https://ops.example",
    )
