"""A real server: a principal cannot create more than its quota, nor ask more often."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from skep.http.auth.api_key import create_key
from skep.http.auth.api_key_file import add_key
from skep.model.quota import Quota
from tests.support.http.arrow_streams import to_stream
from tests.support.http.token_signing import SECRET, sign
from tests.support.postgres_databases import databases
from tests.support.server_process import ServerProcess


class Tenant:
    """Talks to several servers in turn."""

    def __init__(self, urls: list[str], credential: str | None = None) -> None:
        self._urls = urls
        self._headers = {"authorization": f"Bearer {credential}"} if credential else {}
        self._requests = 0

    def send(self, method: str, path: str, **more: Any) -> httpx.Response:
        self._requests += 1
        url = self._urls[self._requests % len(self._urls)]
        return httpx.request(method, url + path, headers=self._headers, **more)

    def catch_up(self) -> None:
        """Let every server hear of what was created at the others."""
        for _ in self._urls:
            assert self.send("GET", "/api/v1/resources/queues").status_code == 200

    def push(self, queue: str, *partitions: str) -> httpx.Response:
        items = [{"queue": queue, "partition": each, "payload": 1} for each in partitions or "a"]
        return self.send("POST", "/api/v1/push", json={"items": items})

    def pop(self, queue: str, group: str) -> httpx.Response:
        return self.send("GET", f"/api/v1/pop/queue/{queue}?consumerGroup={group}")

    def begin(self, reader: str, queue: str) -> httpx.Response:
        body = {"queues": [queue], "start": "earliest"}
        return self.send("PUT", f"/api/v1/journal/groups/{reader}", json=body)

    def stage(self, app: str, chunk: int, payload: str) -> httpx.Response:
        place = {"app": app, "version": 0, "stage": "s", "chunk": chunk, "queue": "a-1"}
        body = to_stream({"payload": [payload]})
        return self.send("POST", "/api/v1/journal/stage", params=place, content=body)

    def commit(self, app: str, chunks: int) -> httpx.Response:
        stages = [{"stage": "s", "chunks": chunks, "rows": chunks}]
        body = {"app": app, "version": 0, "stages": stages}
        return self.send("POST", "/api/v1/journal/commit", json=body)

    def partitions(self, queue: str) -> set[str]:
        found = self.send("GET", f"/api/v1/resources/queues/{queue}").json()["partitions"]
        return {each["name"] for each in found}


Servers = Callable[[], Any]


@pytest.fixture(params=["memory", "rocksdb", "two servers"])
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Servers:
    """Starts the servers of a store, and again; gives their addresses."""
    two = request.param == "two servers"
    stores = {"memory": "memory://", "rocksdb": str(tmp_path / "store")}
    store = stores.get(request.param) or databases().empty()

    @contextmanager
    def start(**settings: str) -> Iterator[list[str]]:
        with ExitStack() as stack:
            given = {"SKEP_API_KEYS": str(tmp_path / "keys.json")} | settings
            yield [stack.enter_context(ServerProcess(store, **given)).url for _ in range(1 + two)]

    return start


def key(tmp_path: Path, *queues: str, **limits: int) -> str:
    made = create_key(["admin"], queues=queues or None, quota=Quota(**limits))
    add_key(tmp_path / "keys.json", made.entry)
    return made.text


def refused(answer: httpx.Response, quota: str, limit: int) -> None:
    problem = answer.json()
    assert answer.status_code == 409, problem
    assert (problem["type"], problem["quota"], problem["limit"]) == ("QuotaExceeded", quota, limit)
    assert f"at most {limit} {quota.replace('_', ' ')}" in problem["error"]


def test_queues(servers: Servers, tmp_path: Path) -> None:
    limited, other = key(tmp_path, "a-*", queues=2), key(tmp_path, "b-*", queues=2)
    with servers() as urls:
        tenant, neighbour = Tenant(urls, limited), Tenant(urls, other)
        assert neighbour.push("b-1").status_code == 201
        for queue in ("a-1", "a-2", "a-1"):
            assert tenant.push(queue).status_code == 201

        tenant.catch_up()
        refused(tenant.push("a-3"), "queues", 2)
        refused(tenant.send("POST", "/api/v1/configure", json={"queue": "a-3"}), "queues", 2)
        configured = tenant.send("POST", "/api/v1/configure", json={"queue": "a-1"})
        assert configured.status_code == 200
        assert neighbour.push("b-2").status_code == 201

        names = {each["name"] for each in _queues(tenant)}
        assert names == {"a-1", "a-2"}
        assert tenant.send("DELETE", "/api/v1/resources/queues/a-1").status_code < 300
        tenant.catch_up()
        assert tenant.push("a-3").status_code == 201


def _queues(tenant: Tenant) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tenant.send("GET", "/api/v1/resources/queues").json()["queues"]
    return found


def test_partitions(servers: Servers, tmp_path: Path) -> None:
    limited = key(tmp_path, "a-*", partitions=3)
    with servers() as urls:
        tenant = Tenant(urls, limited)
        assert tenant.push("a-1", "x", "y").status_code == 201

        tenant.catch_up()
        refused(tenant.push("a-1", "y", "z", "w"), "partitions", 3)
        refused(tenant.push("a-2", "x", "y"), "partitions", 3)

        assert tenant.partitions("a-1") == {"x", "y"}
        assert tenant.push("a-1", "z").status_code == 201
        assert tenant.push("a-1", "x", "y", "z").status_code == 201


async def test_partitions_of_pushes_at_the_same_time(tmp_path: Path) -> None:
    limited = key(tmp_path, partitions=50)
    with ServerProcess("memory://", SKEP_API_KEYS=str(tmp_path / "keys.json")) as server:
        async with httpx.AsyncClient(headers={"x-api-key": limited}) as client:
            pushes = [
                client.post(
                    f"{server.url}/api/v1/push",
                    json={
                        "items": [
                            {"queue": f"q{push % 3}", "partition": f"{push} {n}", "payload": 1}
                            for n in range(10)
                        ]
                    },
                )
                for push in range(30)
            ]
            statuses = [each.status_code for each in await asyncio.gather(*pushes)]
        tenant = Tenant([server.url], limited)

        assert sum(len(tenant.partitions(f"q{n}")) for n in range(3)) == 10 * statuses.count(201)
        assert set(statuses) == {201, 409}
        assert statuses.count(201) <= 5


def test_what_a_sink_publishes_counts(servers: Servers, tmp_path: Path) -> None:
    limited = key(tmp_path, "a-*", queues=1, partitions=2)
    with servers() as urls:
        tenant = Tenant(urls, limited)
        tenant.push("a-0", "x", "y")
        tenant.stage("app", 0, "x")

        tenant.catch_up()
        refused(tenant.commit("app", 1), "queues", 1)

        assert {each["name"] for each in _queues(tenant)} == {"a-0"}
        assert tenant.send("DELETE", "/api/v1/resources/queues/a-0").status_code < 300
        tenant.catch_up()
        assert tenant.commit("app", 1).status_code == 200


def test_a_sink_that_publishes_in_steps_stays_within_the_quota(
    servers: Servers, tmp_path: Path
) -> None:
    limited = key(tmp_path, "a-*", partitions=5_000)
    with servers() as urls:
        tenant = Tenant(urls, limited)
        place = {"app": "app", "version": 0, "stage": "s", "chunk": 0, "queue": "a-1"}
        names = [str(number) for number in range(5_001)]
        body = to_stream({"payload": ["1"] * len(names), "partition": names})
        tenant.send("POST", "/api/v1/journal/stage", params=place, content=body)

        stages = [{"stage": "s", "chunks": 1, "rows": len(names)}]
        commit = {"app": "app", "version": 0, "stages": stages}
        refused(tenant.send("POST", "/api/v1/journal/commit", json=commit), "partitions", 5_000)

        assert _queues(tenant) == []


def test_what_is_buffered_during_maintenance_counts(tmp_path: Path) -> None:
    limited, operator = key(tmp_path, "a-*", queues=1, partitions=2), key(tmp_path)
    with ServerProcess("memory://", SKEP_API_KEYS=str(tmp_path / "keys.json")) as server:
        tenant, admin = Tenant([server.url], limited), Tenant([server.url], operator)
        tenant.push("a-1", "x")
        maintain = ("POST", "/api/v1/system/maintenance")
        assert admin.send(*maintain, json={"enabled": True}).status_code == 200

        refused(tenant.push("a-2"), "queues", 1)
        refused(tenant.push("a-1", "y", "z"), "partitions", 2)

        assert tenant.push("a-1", "y").status_code == 201
        assert admin.send(*maintain, json={"enabled": False}).status_code == 200
        answered(200, lambda: tenant.pop("a-1", "g"))


@pytest.mark.parametrize("servers", ["rocksdb", "two servers"], indirect=True)
def test_what_was_created_counts_after_a_restart(servers: Servers, tmp_path: Path) -> None:
    limited = key(tmp_path, "a-*", partitions=2)
    with servers() as urls:
        assert Tenant(urls, limited).push("a-1", "x", "y").status_code == 201
    with servers() as urls:
        tenant = Tenant(urls, limited)

        refused(tenant.push("a-1", "z"), "partitions", 2)
        assert tenant.push("a-1", "x").status_code == 201


def test_groups(servers: Servers, tmp_path: Path) -> None:
    limited = key(tmp_path, "a-*", groups=2)
    with servers() as urls:
        tenant = Tenant(urls, limited)
        tenant.push("a-1")
        tenant.push("a-2")
        assert [tenant.pop("a-1", "g").status_code, tenant.pop("a-2", "g").status_code] == [200] * 2

        tenant.catch_up()
        refused(tenant.pop("a-1", "h"), "groups", 2)

        assert tenant.pop("a-1", "g").status_code in (200, 204)


def test_readers(servers: Servers, tmp_path: Path) -> None:
    limited, other = key(tmp_path, "a-*", readers=1), key(tmp_path, "b-*", readers=1)
    with servers() as urls:
        tenant, neighbour = Tenant(urls, limited), Tenant(urls, other)
        tenant.push("a-1")
        neighbour.push("b-1")
        assert neighbour.begin("theirs", "b-1").status_code == 200
        assert tenant.begin("first", "a-1").status_code == 200

        refused(tenant.begin("second", "a-1"), "readers", 1)

        assert tenant.begin("first", "a-1").status_code == 200


def test_staged_bytes(servers: Servers, tmp_path: Path) -> None:
    limit = 3 << 16
    limited, other = (key(tmp_path, staged_bytes=limit) for _ in range(2))
    with servers() as urls:
        tenant, neighbour = Tenant(urls, limited), Tenant(urls, other)
        assert neighbour.stage("theirs", 0, "x" * 100_000).status_code == 201
        # However small it is, a chunk counts 64 KiB.
        assert tenant.stage("app", 0, "x").status_code == 201
        assert tenant.stage("other", 0, "x" * 100_000).status_code == 201

        # A server hears of what was staged at another one when it counts again.
        chunks = count(1)
        answer = answered(409, lambda: tenant.stage("app", next(chunks), "x" * 65_536))
        refused(answer, "staged_bytes", limit)

        assert tenant.commit("other", 1).status_code == 200
        answered(201, lambda: tenant.stage("app", 1, "x" * 65_536))


def test_a_chunk_that_is_staged_again_counts_once(servers: Servers, tmp_path: Path) -> None:
    limited = key(tmp_path, staged_bytes=3 << 16)
    with servers() as urls:
        tenant = Tenant(urls, limited)
        assert tenant.stage("app", 0, "x" * 100_000).status_code == 201

        again = [tenant.stage("app", 0, "y" * 100_000).status_code for _ in range(4)]

        assert again == [201] * 4
        refused(tenant.stage("app", 0, "z" * 200_000), "staged_bytes", 3 << 16)


def answered(status: int, ask: Callable[[], httpx.Response]) -> httpx.Response:
    """Ask until the answer has this status; the test's time limit ends it."""
    while (answer := ask()).status_code != status:
        pass
    return answer


def test_requests_per_second(tmp_path: Path) -> None:
    limited, other = key(tmp_path, requests=5), key(tmp_path, requests=0)
    with ServerProcess("memory://", SKEP_API_KEYS=str(tmp_path / "keys.json")) as server:
        tenant, neighbour = Tenant([server.url], limited), Tenant([server.url], other)
        answers = [tenant.push("a-1") for _ in range(50)]

        late = [each for each in answers if each.status_code == 429]
        assert {each.status_code for each in answers} == {201, 429}
        assert late[0].json()["type"] == "RateLimited"
        assert all(int(each.headers["retry-after"]) >= 1 for each in late)
        assert [neighbour.push("a-1").status_code for _ in range(20)] == [201] * 20
        answered(201, lambda: tenant.push("a-1"))

        metrics = neighbour.send("GET", "/metrics/prometheus").text
        (line,) = [
            each for each in metrics.splitlines() if 'refused_total{quota="requests"' in each
        ]
        assert float(line.split()[-1]) >= len(late)


def test_the_settings_limit_tokens_and_keys_that_have_no_limit_of_their_own(
    tmp_path: Path,
) -> None:
    default, own = key(tmp_path, "a-*"), key(tmp_path, "b-*", queues=2)
    with ServerProcess(
        "memory://",
        SKEP_API_KEYS=str(tmp_path / "keys.json"),
        SKEP_JWT_SECRET=SECRET,
        SKEP_QUOTA_QUEUES="1",
    ) as server:
        token = sign(exp=1 << 40, queues=["c-*"])
        for credential, queue, limit in ((default, "a", 1), (own, "b", 2), (token, "c", 1)):
            tenant = Tenant([server.url], credential)
            for number in range(limit):
                assert tenant.push(f"{queue}-{number}").status_code == 201
            refused(tenant.push(f"{queue}-more"), "queues", limit)


def test_where_nobody_is_authenticated_there_are_no_quotas() -> None:
    with ServerProcess(
        "memory://", SKEP_QUOTA_QUEUES="1", SKEP_QUOTA_REQUESTS="1", SKEP_QUOTA_PARTITIONS="1"
    ) as server:
        anybody = Tenant([server.url])

        assert [anybody.push(f"q{n}", "x", "y").status_code for n in range(20)] == [201] * 20


async def test_pushes_that_create_the_same_count_it_once(tmp_path: Path) -> None:
    tenant = create_key(["admin"], queues=["a-*"], quota=Quota(queues=1, partitions=1))
    add_key(tmp_path / "keys.json", tenant.entry)
    with ServerProcess("memory://", SKEP_API_KEYS=str(tmp_path / "keys.json")) as server:
        headers = {"authorization": f"Bearer {tenant.text}"}
        async with httpx.AsyncClient(base_url=server.url, headers=headers) as client:
            body = {"items": [{"queue": "a-1", "partition": "p", "payload": 1}]}
            pushes = [client.post("/api/v1/push", json=body) for _ in range(20)]
            statuses = {answer.status_code for answer in await asyncio.gather(*pushes)}

    assert statuses == {201}


@pytest.mark.parametrize("route", ["push", "configure"])
def test_a_request_that_is_refused_creates_nothing(route: str, tmp_path: Path) -> None:
    key = create_key(["admin"], queues=["a-*"], quota=Quota(partitions=1))
    add_key(tmp_path / "keys.json", key.entry)
    with ServerProcess("memory://", SKEP_API_KEYS=str(tmp_path / "keys.json")) as server:
        tenant = Tenant([server.url], key.text)
        assert tenant.push("a-1", "p").status_code == 201

        if route == "push":
            refused = tenant.push("a-2", "p")
        else:
            refused = tenant.send("POST", "/api/v1/configure", json={"queue": "a-2"})

        queues = tenant.send("GET", "/api/v1/resources/queues").json()["queues"]
        assert refused.status_code == 409
        assert [queue["name"] for queue in queues] == ["a-1"]
