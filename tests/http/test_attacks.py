"""What a hostile client sends to a running server, and that the server goes on serving."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.http.arrow_streams import bomb
from tests.support.server_process import ServerProcess

STAGE: dict[str, str | int] = {
    "app": "a",
    "version": 1,
    "stage": "s",
    "chunk": 0,
    "queue": "orders",
}


@pytest.fixture
def server() -> Iterator[ServerProcess]:
    with ServerProcess("memory://") as server:
        yield server


def push(server: ServerProcess, queue: str, *payloads: object) -> None:
    items = [{"queue": queue, "payload": payload} for payload in payloads]
    httpx.post(f"{server.url}/api/v1/push", json={"items": items}).raise_for_status()


def resident_bytes(pid: int) -> int:
    return _memory(pid, "VmRSS")


def peak_bytes(pid: int) -> int:
    return _memory(pid, "VmHWM")


def _memory(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{name}:"))
    return int(line.split()[1]) << 10


def is_alive(server: ServerProcess) -> bool:
    return httpx.get(f"{server.url}/health/live", timeout=5).is_success


@pytest.mark.parametrize("pattern", ["a-(a+)+b", "a-(a|a)*b", "a-(.*.*.*)*b"])
def test_a_pattern_cannot_freeze_the_server(server: ServerProcess, pattern: str) -> None:
    push(server, "a-" + "a" * 200, 1)

    heads = httpx.post(f"{server.url}/api/v1/journal/heads", json={"pattern": pattern})
    group = httpx.put(
        f"{server.url}/api/v1/journal/groups/g", json={"pattern": pattern, "start": "earliest"}
    )

    assert [heads.status_code, group.status_code] == [200, 200]
    assert heads.json()["heads"]["queues"] == {}
    assert is_alive(server)


def test_a_compressed_stream_is_refused_before_it_takes_memory(server: ServerProcess) -> None:
    stream = bomb(rows=1, size=1 << 29)
    httpx.post(f"{server.url}/api/v1/journal/stage", params=STAGE, content=b"")  # loads Arrow
    before = resident_bytes(server.pid)

    answer = httpx.post(f"{server.url}/api/v1/journal/stage", params=STAGE, content=stream)

    assert len(stream) < 100_000
    assert answer.status_code == 400
    assert "version V5" in answer.json()["error"]
    assert peak_bytes(server.pid) - before < 64 << 20


OURS = "__skep.aside"
ITEM = {"queue": OURS, "payload": 1}


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "push", {"items": [ITEM]}, 400),
        ("GET", f"pop/queue/{OURS}?autoAck=true", None, 400),
        ("POST", "transaction", {"operations": [{"type": "push", "items": [ITEM]}]}, 400),
        ("POST", "configure", {"queue": OURS, "options": {"leaseTime": 1}}, 400),
        ("POST", "journal/heads", {"queues": [OURS]}, 404),
    ],
)
def test_the_queues_of_the_server_cannot_be_used(
    server: ServerProcess, method: str, path: str, body: object, status: int
) -> None:
    maintenance = f"{server.url}/api/v1/system/maintenance"
    httpx.post(maintenance, json={"enabled": True}).raise_for_status()
    push(server, "orders", 1)
    httpx.post(maintenance, json={"enabled": False}).raise_for_status()

    answer = httpx.request(method, f"{server.url}/api/v1/{path}", json=body)

    assert answer.status_code == status, answer.text
