"""A real server: nobody can invalidate what the application of another principal writes."""

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from skep.http.auth.api_key import create_key
from skep.http.auth.api_key_file import add_key
from tests.support.http.arrow_streams import to_stream
from tests.support.http.token_signing import SECRET, sign
from tests.support.postgres_databases import databases
from tests.support.server_process import ServerProcess

JOURNAL = "/api/v1/journal"


class Tenant:
    """A principal that writes as an application, and talks to several servers in turn."""

    def __init__(self, urls: list[str], app: str, credential: str) -> None:
        self._urls = urls
        self._app = app
        self._headers = {"authorization": f"Bearer {credential}"}
        self._requests = 0

    def send(self, method: str, path: str, **more: Any) -> httpx.Response:
        self._requests += 1
        url = self._urls[self._requests % len(self._urls)]
        return httpx.request(method, url + path, headers=self._headers, **more)

    def stage(self, version: int, payload: str) -> int:
        place = {"app": self._app, "version": version, "stage": "s", "chunk": 0}
        body = to_stream({"payload": [payload], "queue": [self._app]})
        return self.send("POST", f"{JOURNAL}/stage", params=place, content=body).status_code

    def commit(self, version: int, rows: int, path: str = "commit") -> int:
        stages = [{"stage": "s", "chunks": 1, "rows": rows}] if rows else []
        body = {"app": self._app, "version": version, "stages": stages}
        return self.send("POST", f"{JOURNAL}/{path}", json=body).status_code

    def read(self) -> list[Any]:
        answer = self.send("GET", f"/api/v1/pop/queue/{self._app}?autoAck=true&batch=100")
        return [each["data"] for each in answer.json()["messages"]] if answer.content else []


@pytest.fixture(params=["memory", "rocksdb", "two servers"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, int]:
    """A store, and how many servers there are on it."""
    stores = {"memory": ("memory://", 1), "rocksdb": (str(tmp_path / "store"), 1)}
    return stores.get(request.param) or (databases().empty(), 2)


def test_an_application_cannot_be_taken_from_its_principal(
    store: tuple[str, int], tmp_path: Path
) -> None:
    path = tmp_path / "keys.json"

    def key(subject: str | None) -> str:
        made = create_key(["admin"], subject=subject)
        add_key(path, made.entry)
        return made.text

    def token(**claims: Any) -> str:
        return sign(exp=int(time.time()) + 600, **claims)

    pairs = {
        "keys-without-a-subject": (key(None), key(None)),
        "keys-of-one-subject": (key("etl"), key("etl")),
        "a-key-and-a-token-of-one-subject": (key("etl"), token(sub="etl")),
        "tokens-of-two-issuers": (token(sub="etl", iss="a"), token(sub="etl", iss="b")),
        "a-token-without-a-subject": (token(sub="etl"), token(sub=None)),
    }
    settings = {"SKEP_API_KEYS": str(path), "SKEP_JWT_SECRET": SECRET}
    with ExitStack() as stack:
        urls = [
            stack.enter_context(ServerProcess(store[0], **settings)).url for _ in range(store[1])
        ]
        for app, credentials in pairs.items():
            victim, attacker = (Tenant(urls, app, each) for each in credentials)
            assert victim.stage(0, "0") == 201

            # Before the first version, and after it.
            for version in (0, 1):
                assert attacker.commit(1 << 62, 0) == 403
                assert attacker.commit(version, 0) == 403
                assert attacker.commit(version, 1) == 403
                assert attacker.commit(version, 1, "abort") == 403
                assert attacker.stage(version, "9") == 403
                assert victim.commit(version, 1) == 200
                assert victim.stage(version + 1, str(version + 1)) == 201

            assert victim.read() == [0, 1]


def test_a_token_without_a_subject_has_no_application(tmp_path: Path) -> None:
    token = sign(exp=int(time.time()) + 600, sub=None)
    with ServerProcess("memory://", SKEP_JWT_SECRET=SECRET) as server:
        nobody = Tenant([server.url], "query", token)

        assert nobody.stage(0, "0") == 403
        assert nobody.commit(0, 0) == 403


def test_a_key_that_replaces_another_has_its_applications(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    old = create_key(["admin"])
    new = create_key(["admin"], principal=old.entry.id)
    for each in (old, new):
        add_key(path, each.entry)
    with ServerProcess("memory://", SKEP_API_KEYS=str(path)) as server:
        before, after = (Tenant([server.url], "query", each.text) for each in (old, new))
        assert before.stage(0, "0") == 201

        assert after.commit(0, 1) == 200


def test_only_its_owner_and_who_is_for_all_queues_see_the_version_of_an_application(
    store: tuple[str, int], tmp_path: Path
) -> None:
    path = tmp_path / "keys.json"

    def key(role: str, queue: str | None = None) -> str:
        made = create_key([role], queues=[queue] if queue else None)
        add_key(path, made.entry)
        return made.text

    credentials = key("admin", "query"), key("monitor", "theirs"), key("monitor")
    with ExitStack() as stack:
        urls = [
            stack.enter_context(ServerProcess(store[0], SKEP_API_KEYS=str(path))).url
            for _ in range(store[1])
        ]
        owner, other, monitor = (Tenant(urls, "query", each) for each in credentials)
        assert owner.stage(7, "0") == 201
        assert owner.commit(7, 1) == 200

        def shown(tenant: Tenant, name: str = "query") -> Any:
            return tenant.send("GET", f"{JOURNAL}/apps/{name}").json()

        assert shown(owner)["version"] == shown(monitor)["version"] == 7
        assert shown(other) == shown(other, "missing") | {"app": "query"}
