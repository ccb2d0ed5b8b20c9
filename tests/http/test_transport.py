"""Hostile and broken requests, over raw connections to a running server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from skep.http.auth.api_key import create_key
from skep.http.auth.api_key_file import add_key
from tests.support.http.raw_connection import (
    ITEM,
    Raw,
    exchange,
    get,
    megabytes,
    push,
    request,
    statuses,
)
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.xdist_group("transport")

CLOSE = b"Connection: close"
UPGRADE = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABk")
CHUNKED = b"Transfer-Encoding: chunked"
CHUNKS = b"%x\r\n%b\r\n0\r\n" % (len(ITEM), ITEM)


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess("memory://", SKEP_RECEIVE_SECONDS="1") as server:
        yield server


def pop(server: ServerProcess, queue: str = "orders", **query: str) -> Any:
    answer = httpx.get(f"{server.url}/api/v1/pop/queue/{queue}", params=query)
    return answer.json() if answer.content else None


def drained(server: ServerProcess) -> int:
    """How many messages there are, which are taken out."""
    popped = pop(server, batch="10000", autoAck="true")
    return len(popped["messages"]) if popped else 0


def is_waiting(server: ServerProcess) -> bool:
    """Whether a long poll waits for messages."""
    answer = httpx.get(f"{server.url}/api/v1/analytics/queue-parked-replicas").json()
    return bool(answer["total"])


@pytest.fixture(autouse=True)
def empty(server: ServerProcess) -> None:
    httpx.delete(f"{server.url}/api/v1/resources/queues/orders")


# Trailers


def test_trailers_are_dropped(server: ServerProcess) -> None:
    trailers = b"Digest: x\r\nHost: evil.example\r\n\r\n"

    answer = exchange(
        server, request(b"/api/v1/push", CHUNKED), CHUNKS + trailers, get(b"/health/live", CLOSE)
    )

    assert statuses(answer) == [201, 200]


@pytest.mark.parametrize("name", [b"X-API-Key: ", b"Authorization: Bearer "])
def test_a_key_in_a_trailer_is_no_credential(tmp_path: Path, name: bytes) -> None:
    key = create_key(["producer"])
    add_key(tmp_path / "keys.json", key.entry)
    head = request(b"/api/v1/push", CHUNKED, CLOSE)
    trailer = name + key.text.encode() + b"\r\n\r\n"

    with ServerProcess("memory://", "--api-keys", str(tmp_path / "keys.json")) as server:
        answer = exchange(server, head + CHUNKS + trailer)

    assert statuses(answer) == [401]


@pytest.mark.parametrize(
    "trailers",
    [b"a: b\r\n" * 3_500_000, b"a: " + b"b" * 20_000_000],
    ids=["many", "one without an end"],
)
def test_trailers_take_no_memory(server: ServerProcess, trailers: bytes) -> None:
    before = megabytes(server)

    answer = exchange(server, request(b"/api/v1/push", CHUNKED), CHUNKS + trailers)

    assert statuses(answer) == [431]
    assert megabytes(server) - before < 20
    assert drained(server) == 0


# Small chunks


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)


def push_in_chunks(small: int, *, before: bytes = b"") -> bytes:
    """A push that begins with spaces, each in a chunk."""
    spaces = chunked(*([b" "] * small))
    return request(b"/api/v1/push", CHUNKED) + before + spaces + CHUNKS + b"\r\n"


@pytest.mark.parametrize("before", [b"", chunked(b" " * 200_000)], ids=["alone", "after a large"])
def test_small_chunks_of_a_body_are_limited(server: ServerProcess, before: bytes) -> None:
    answer = exchange(server, push_in_chunks(2000, before=before), get(b"/health/live", CLOSE))

    assert statuses(answer) == [400]
    assert b"too many small chunks" in answer
    assert drained(server) == 0


def test_small_chunks_of_pipelined_requests_are_limited_together(server: ServerProcess) -> None:
    with Raw(server) as raw:
        poll = get(b"/api/v1/pop/queue/orders?wait=true&timeout=60000&autoAck=true")
        raw.send(poll + push_in_chunks(400) * 3)
        exchange(server, push(CLOSE))
        answer = raw.read()

    assert statuses(answer) == [200, 201, 201, 400]


@pytest.mark.parametrize("size", [1, 1000])
def test_many_chunks_after_an_early_response_close_the_connection(
    server: ServerProcess, size: int
) -> None:
    with Raw(server) as raw:
        raw.send(request(b"/nothing", CHUNKED))
        early = raw.read_until(b"}")
        raw.send(chunked(*([b" " * size] * 2000)) + b"0\r\n\r\n" + get(b"/health/live", CLOSE))
        later = raw.read()

    assert statuses(early) == [404]
    assert later == b""


def test_a_connection_is_kept_after_few_chunks_behind_an_early_response(
    server: ServerProcess,
) -> None:
    with Raw(server) as raw:
        raw.send(request(b"/nothing", CHUNKED))
        early = raw.read_until(b"}")
        raw.send(chunked(*([b" " * 1000] * 500)) + b"0\r\n\r\n" + get(b"/health/live", CLOSE))
        later = raw.read()

    assert (statuses(early), statuses(later)) == ([404], [200])


def test_large_chunks_make_up_for_small_ones_before_them(server: ServerProcess) -> None:
    spaces = chunked(*([b" ", b" " * 200] * 3000))

    answer = exchange(server, request(b"/api/v1/push", CHUNKED, CLOSE) + spaces + CHUNKS + b"\r\n")

    assert statuses(answer) == [201]


def test_each_request_of_a_connection_may_have_small_chunks(server: ServerProcess) -> None:
    with Raw(server) as raw:
        for _ in range(5):
            raw.send(push_in_chunks(900))
            assert statuses(raw.read_until(b"]")) == [201]


# Headers that two readers could understand differently


@pytest.mark.parametrize(
    "header",
    [
        b"Authorization: Bearer a",
        b"X-API-Key: skep_a_b",
        b"Host: localhost",
        b"Content-Length: 42",
        b"Origin: http://localhost",
        b"Referer: http://localhost/",
        b"Sec-Fetch-Site: same-origin",
    ],
)
def test_a_header_that_must_be_unique_is_not_accepted_twice(
    server: ServerProcess, header: bytes
) -> None:
    first = [] if header.startswith((b"Host", b"Content")) else [header]

    answer = exchange(server, push(*first, header), push())

    assert statuses(answer) == [400]
    assert drained(server) == 0


def test_a_request_of_http_1_1_needs_a_host(server: ServerProcess) -> None:
    answer = exchange(server, b"GET /health/live HTTP/1.1\r\n\r\n", get(b"/health/live"))

    assert statuses(answer) == [400]
    assert b"Host" in answer


def test_a_request_of_http_1_0_needs_no_host(server: ServerProcess) -> None:
    assert statuses(exchange(server, b"GET /health/live HTTP/1.0\r\n\r\n")) == [200]


def test_connect_is_rejected(server: ServerProcess) -> None:
    answer = exchange(server, b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n")

    assert statuses(answer) == [400]


# Upgrade


def test_a_request_with_upgrade_keeps_its_body(server: ServerProcess) -> None:
    answer = exchange(server, push(*UPGRADE) + push(*UPGRADE) + get(b"/health/live", CLOSE))

    assert statuses(answer) == [201, 201, 200]
    assert drained(server) == 2


def test_a_request_with_upgrade_waits_for_its_body(server: ServerProcess) -> None:
    whole = push(*UPGRADE)
    with Raw(server) as raw:
        raw.send(whole[:-30])
        assert statuses(exchange(server, get(b"/health/live", CLOSE))) == [200]
        raw.send(whole[-30:] + get(b"/health/live", CLOSE))
        answer = raw.read()

    assert statuses(answer) == [201, 200]


def test_the_chunks_of_a_request_with_upgrade_are_its_body(server: ServerProcess) -> None:
    head = request(b"/api/v1/push", CHUNKED, *UPGRADE)

    answer = exchange(server, head + CHUNKS + b"\r\n" + get(b"/health/live", CLOSE))

    assert statuses(answer) == [201, 200]


def test_a_failure_that_is_reported_with_upgrade_is_not_a_success(server: ServerProcess) -> None:
    exchange(server, push(CLOSE))
    lease = pop(server)["leaseId"].encode()
    body = b'{"status":"retry"}'

    answer = exchange(
        server,
        request(b"/api/v1/lease/" + lease + b"/settle", *UPGRADE, body=body),
        get(b"/health/live", CLOSE),
    )

    assert statuses(answer) == [200, 200]
    assert b'"completed":0' in answer
    assert drained(server) == 1


# Bodies that do not come


def test_an_announced_body_that_does_not_come_settles_nothing(server: ServerProcess) -> None:
    exchange(server, push(CLOSE))
    lease = pop(server)["leaseId"].encode()
    target = b"/api/v1/lease/" + lease + b"/extend"

    with Raw(server) as raw:
        raw.send(request(target, b"Content-Length: 16"))
    metric = 'skep_http_requests_total{method="POST",route="/api/v1/lease/{leaseId}/extend"'
    metrics = ""
    while metric not in metrics:
        metrics = httpx.get(f"{server.url}/metrics/prometheus").text

    assert f'{metric},status="400"}} 1' in metrics


@pytest.mark.parametrize("begin", [b"", b'{"items":'], ids=["no byte", "a part"])
@pytest.mark.parametrize("chunked", [True, False])
def test_a_body_that_does_not_come_is_awaited_for_a_limited_time(
    server: ServerProcess, begin: bytes, chunked: bool
) -> None:
    head = request(b"/api/v1/push", CHUNKED if chunked else b"Content-Length: 100")
    sent = b"%x\r\n%b\r\n" % (len(begin), begin) if chunked and begin else begin

    answer = exchange(server, head + sent)

    assert statuses(answer) == [408]


def test_a_body_for_a_route_that_takes_none_is_awaited_for_a_limited_time(
    server: ServerProcess,
) -> None:
    poll = b"/api/v1/pop/queue/orders?wait=true&timeout=60000"

    answer = exchange(server, get(poll, b"Content-Length: 100"))
    exchange(server, push(CLOSE))

    assert statuses(answer) == [408]
    assert drained(server) == 1


# Garbage behind a request


GARBAGE = b"\x00\x01garbage\r\n\r\n"


def test_a_complete_request_is_answered_before_the_garbage_behind_it(
    server: ServerProcess,
) -> None:
    answer = exchange(server, push() + push() + GARBAGE, push())

    assert statuses(answer) == [201, 201, 400]
    assert drained(server) == 2


def test_a_complete_request_is_answered_before_a_broken_body_behind_it(
    server: ServerProcess,
) -> None:
    broken = request(b"/api/v1/push", CHUNKED) + b"ZZ\r\n"

    answer = exchange(server, push() + broken)

    assert statuses(answer) == [201, 400]
    assert drained(server) == 1


def test_garbage_behind_a_long_poll_does_not_take_its_answer(server: ServerProcess) -> None:
    with Raw(server) as raw:
        raw.send(get(b"/api/v1/pop/queue/orders?wait=true&timeout=60000&autoAck=true") + GARBAGE)
        exchange(server, push(CLOSE))
        answer = raw.read()

    assert statuses(answer) == [200, 400]
    assert b'"data":1' in answer


def test_half_a_request_behind_a_long_poll_does_not_take_its_answer(
    server: ServerProcess,
) -> None:
    with Raw(server) as raw:
        raw.send(get(b"/api/v1/pop/queue/orders?wait=true&timeout=4000") + b"GET /health")
        answer = raw.read()

    assert statuses(answer) == [204, 408]


def test_a_request_behind_a_long_poll_of_a_client_that_has_gone_takes_no_message(
    server: ServerProcess,
) -> None:
    poll = get(b"/api/v1/pop/queue/orders?wait=true&timeout=60000&autoAck=true")
    exchange(server, push(CLOSE))
    drained(server)
    with Raw(server) as raw:
        raw.send(poll + poll)
        while not is_waiting(server):
            pass
    while is_waiting(server):
        pass

    exchange(server, push(CLOSE))

    assert drained(server) == 1


def test_pipelined_requests_are_limited(server: ServerProcess) -> None:
    poll = get(b"/api/v1/pop/queue/orders?wait=true&timeout=1000")

    answer = exchange(server, poll + get(b"/health/live") * 2_000)

    assert statuses(answer) == [204, *[200] * 100, 400]


def test_bytes_between_requests_are_limited(server: ServerProcess) -> None:
    assert statuses(exchange(server, get(b"/health/live"), b"\r\n" * 200_000)) == [200, 431]


# Headers of responses


@pytest.mark.parametrize(
    "data",
    [get(b"/docs", CLOSE), get(b"/nowhere", CLOSE), push(CLOSE), GARBAGE],
    ids=["page", "error", "api", "garbage"],
)
def test_every_response_forbids_sniffing_referrers_and_caching(
    server: ServerProcess, data: bytes
) -> None:
    head = exchange(server, data).partition(b"\r\n\r\n")[0]

    assert b"\r\nx-content-type-options: nosniff" in head
    assert b"\r\nreferrer-policy: no-referrer" in head
    assert b"\r\ncache-control: no-store" in head


# What strangers may make the server keep


def test_long_paths_and_queries_are_not_remembered(server: ServerProcess) -> None:
    httpx.get(f"{server.url}/docs")
    before = megabytes(server)

    with Raw(server) as raw:
        for number in range(4_000):
            path = b"/api/v1/pop/queue/orders/partition/%d%b" % (number, b"x" * 12_000)
            raw.send(request(path, method=b"PUT"))
            raw.read_until(b"}")

    assert megabytes(server) - before < 20
