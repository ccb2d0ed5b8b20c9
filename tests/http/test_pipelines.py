"""Runs of pipelines over HTTP: who may tell of them, and who sees them."""

from typing import Any

import pytest

from skep.http.auth.principal import Permission
from skep.testing.clock import ManualClock
from tests.support.http.json_client import Client, at, somebody

HERE = "/api/v1/pipelines"
ALL = (Permission.POP, Permission.STATUS, Permission.ADMIN)


def body(**fields: Any) -> dict[str, Any]:
    told = {"pipeline": "archive", "queues": ["orders"], "state": "running", "host": "mill"}
    return {**told, "startedAt": "2030-01-01T00:00:00Z", **fields}


async def put(client: Client, identity: str, status: int = 200, **fields: Any) -> Any:
    return await client.ask("PUT", f"{HERE}/{identity}", status, json=body(**fields))


async def ids(client: Client, **query: Any) -> list[str]:
    return [run["id"] for run in (await client.get(HERE, **query))["pipelines"]]


async def test_a_run_is_shown_as_it_was_told(client: Client, clock: ManualClock) -> None:
    numbers: dict[str, Any] = {
        "messages": 7,
        "batches": 2,
        "groups": ["pipeline-a"],
        "target": "/srv/a",
    }

    answer = await put(client, "a%2F1", **numbers)

    expected = {**body(**numbers), "id": "a/1", "updatedAt": at(clock), "error": None}
    assert answer == expected
    assert await client.get(f"{HERE}/a%2F1") == expected
    assert await client.get(HERE) == {"pipelines": [expected], "total": 1}


async def test_runs_come_in_pages(client: Client, clock: ManualClock) -> None:
    for number in range(5):
        await put(client, f"r{number}")
        clock.advance(1)

    assert await ids(client, limit=2) == ["r4", "r3"]
    assert await ids(client, limit=2, offset=4) == ["r0"]
    assert (await client.get(HERE, limit=2))["total"] == 5


async def test_a_run_is_deleted_once(client: Client) -> None:
    await put(client, "a")

    answers = [await client.delete(f"{HERE}/a") for _ in range(2)]

    assert [answer["existed"] for answer in answers] == [True, False]
    await client.get(f"{HERE}/a", status=404)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"pipeline": 7}, "pipeline"),
        ({"pipeline": ""}, "pipeline"),
        ({"queues": "orders"}, "queues"),
        ({"queues": ["orders", ""]}, "queues[1]"),
        ({"state": "interrupted"}, "state"),
        ({"state": None}, "state"),
        ({"messages": -1}, "messages"),
        ({"batches": 1.5}, "batches"),
        ({"groups": [""]}, "groups[0]"),
        ({"host": ""}, "host"),
        ({"target": None}, "target"),
        ({"startedAt": "today"}, "startedAt"),
        ({"startedAt": "2030-01-01T00:00:00"}, "startedAt"),
        ({"error": "x" * 5000}, "error"),
    ],
)
async def test_a_field_that_is_wrong_is_named(
    client: Client, fields: dict[str, Any], named: str
) -> None:
    await client.refused("PUT", f"{HERE}/a", named, json=body(**fields))

    assert await ids(client) == []


@pytest.mark.parametrize("name", ["pipeline", "state", "host", "startedAt"])
async def test_a_field_that_is_missing_is_named(client: Client, name: str) -> None:
    told = body()
    del told[name]

    await client.refused("PUT", f"{HERE}/a", name, json=told)


async def test_who_sees_some_queues_sees_the_runs_of_these_alone(client: Client) -> None:
    await put(client, "own")
    await put(client, "both", queues=["orders", "payments"])
    await put(client, "all", queues=[])

    client.badge.principal = somebody(*ALL, queues=("orders",))

    assert await ids(client) == ["own"]
    assert (await client.get(HERE))["total"] == 1
    for other in ("both", "all"):
        await client.get(f"{HERE}/{other}", status=403)
        await client.delete(f"{HERE}/{other}", status=403)


async def test_who_sees_some_queues_tells_of_runs_of_these_alone(client: Client) -> None:
    await put(client, "others", queues=["payments"])
    await put(client, "all", queues=[])

    client.badge.principal = somebody(*ALL, queues=("orders",))

    await put(client, "own")
    for queues in (["orders", "payments"], []):
        await put(client, "own", 403, queues=queues)
    for taken in ("others", "all"):
        await put(client, taken, 403)
    assert await ids(client) == ["own"]
