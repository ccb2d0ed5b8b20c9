"""A lease belongs to the principal that took it: nobody else can settle or keep it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from skep.http.auth.api_key import create_key
from skep.http.auth.api_key_file import add_key
from tests.support.http.memory_app import acks_of
from tests.support.postgres_databases import databases
from tests.support.server_process import ServerProcess


class Keys:
    """Keys of two tenants, and of one who only looks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ours = self._create("producer", "consumer")
        self.theirs = self._create("producer", "consumer", "admin")
        self.monitor = self._create("monitor")

    def _create(self, *roles: str) -> str:
        key = create_key(roles, subject="the same for all")
        add_key(self.path, key.entry)
        return key.text


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path / "keys.json")


@pytest.fixture
def server(keys: Keys) -> Iterator[ServerProcess]:
    with ServerProcess("memory://", "--api-keys", str(keys.path)) as server:
        yield server


def ask(server: ServerProcess, key: str, path: str, body: Any = None) -> httpx.Response:
    method = "GET" if body is None else "POST"
    url = f"{server.url}/api/v1/{path}"
    return httpx.request(method, url, json=body, headers={"x-api-key": key}, timeout=30)


def push_and_pop(server: ServerProcess, key: str) -> dict[str, Any]:
    items = [{"queue": "orders", "payload": 1}]
    assert ask(server, key, "push", {"items": items}).status_code == 201
    popped: dict[str, Any] = ask(server, key, "pop/queue/orders").json()
    return popped


def is_done(server: ServerProcess, key: str, popped: dict[str, Any], how: str) -> bool:
    """Try to settle or extend a lease in one of all ways."""
    lease, (ack,) = popped["leaseId"], acks_of(popped)
    operation = {"type": "ack", **ack}
    without_lease = {name: value for name, value in operation.items() if name != "leaseId"}
    ways: dict[str, tuple[str, Any]] = {
        "ack": ("ack", ack),
        "batch": ("ack/batch", {"acknowledgments": [ack]}),
        "settle": (f"lease/{lease}/settle", {"status": "completed"}),
        "extend": (f"lease/{lease}/extend", {"seconds": 1000}),
        "transaction": ("transaction", {"operations": [operation]}),
        "required": (
            "transaction",
            {"operations": [without_lease], "requiredLeases": [lease]},
        ),
        "required only": (
            "transaction",
            {
                "operations": [{"type": "push", "items": [{"queue": "other", "payload": 1}]}],
                "requiredLeases": [lease],
            },
        ),
    }
    answer = ask(server, key, *ways[how])
    found = answer.json()
    if how in ("ack", "batch"):
        return bool(found[0]["success"])
    if "success" in found:
        return bool(found["success"])
    assert answer.status_code in (200, 409), answer.text
    return answer.status_code == 200


WAYS = ["ack", "batch", "settle", "extend", "transaction", "required", "required only"]


@pytest.mark.parametrize("how", WAYS)
def test_another_principal_cannot_use_a_lease(server: ServerProcess, keys: Keys, how: str) -> None:
    popped = push_and_pop(server, keys.ours)

    assert not is_done(server, keys.theirs, popped, how)
    assert is_done(server, keys.ours, popped, how)


def test_a_lease_of_another_looks_like_one_that_is_lost(server: ServerProcess, keys: Keys) -> None:
    lease = push_and_pop(server, keys.ours)["leaseId"]
    unknown = "00000000-0000-4000-8000-000000000000"

    theirs = ask(server, keys.theirs, f"lease/{lease}/extend", {"seconds": 10})
    nobodys = ask(server, keys.theirs, f"lease/{unknown}/extend", {"seconds": 10})

    assert theirs.status_code == nobodys.status_code == 409
    assert theirs.text.replace(lease, unknown) == nobodys.text


def test_a_lease_id_is_not_shown(server: ServerProcess, keys: Keys) -> None:
    lease = push_and_pop(server, keys.ours)["leaseId"]

    shown = [
        ask(server, keys.monitor, path).text
        for path in ("consumer-groups/__QUEUE_MODE__", "consumer-groups/lagging?minLagSeconds=0")
    ]

    assert "workerId" in shown[0]
    assert not any(lease in text for text in shown)


def test_a_lease_stays_with_its_principal_after_a_restart(tmp_path: Path, keys: Keys) -> None:
    with ServerProcess(tmp_path / "data", "--api-keys", str(keys.path)) as server:
        popped = push_and_pop(server, keys.ours)
        server.end()
        server.start()

        assert not is_done(server, keys.theirs, popped, "settle")
        assert is_done(server, keys.ours, popped, "settle")


def test_a_lease_stays_with_its_principal_at_another_server(keys: Keys) -> None:
    database = databases().empty()
    arguments = ("--api-keys", str(keys.path))
    with (
        ServerProcess(database, *arguments) as one,
        ServerProcess(database, *arguments) as two,
    ):
        popped = push_and_pop(one, keys.ours)

        assert not is_done(two, keys.theirs, popped, "settle")
        assert is_done(two, keys.ours, popped, "settle")


def test_without_authentication_a_lease_is_for_everybody() -> None:
    with ServerProcess("memory://") as server:
        popped = push_and_pop(server, "")

        assert is_done(server, "", popped, "settle")


def test_principals_may_choose_the_same_idempotency_key(server: ServerProcess, keys: Keys) -> None:
    def transact(key: str, queue: str) -> dict[str, Any]:
        operations = [{"type": "push", "items": [{"queue": queue, "payload": 1}]}]
        body = {"operations": operations, "idempotencyKey": "order-1001"}
        answer: dict[str, Any] = ask(server, key, "transaction", body).json()
        return answer

    assert transact(keys.ours, "ours")["success"]
    assert transact(keys.theirs, "theirs")["success"]
    assert transact(keys.ours, "ours")["repeated"]
    reused = transact(keys.ours, "other")
    assert not reused["success"]
    assert "'order-1001'" in reused["error"]
