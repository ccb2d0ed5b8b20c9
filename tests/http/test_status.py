"""What is there now, and what happened lately."""

from typing import Any

import pytest

from skep import Broker
from skep.http.auth.principal import Permission
from skep.testing.clock import ManualClock
from skep.wire.stats.status_queue import to_duration_text
from tests.support.http.json_client import Client, at, somebody

STATUS = "/api/v1/status"


async def test_the_status_shows_what_happened_minute_by_minute(
    client: Client, clock: ManualClock
) -> None:
    await client.push("orders", 1, 2, 3)
    clock.advance(60)
    await client.settle(await client.pop("orders", batch=2), "completed")
    clock.advance(30)

    found = await client.get(STATUS)

    assert (found["bucketMinutes"], found["pointCount"]) == (1, 2)
    assert found["timeRange"] == {"from": at(clock, -3600), "to": at(clock)}
    first, second = found["throughput"]
    assert (first["timestamp"], first["ingested"], first["processed"]) == (at(clock, -90), 3, 0)
    assert (second["ingested"], second["popMessages"], second["processed"]) == (0, 2, 2)
    assert second["processedPerSecond"] == pytest.approx(2 / 60)
    assert (second["avgLagMs"], second["maxLagMs"]) == (60_000, 60_000)


async def test_the_status_shows_what_is_there_now(client: Client) -> None:
    await client.post("/api/v1/configure", {"queue": "orders", "options": {"retryLimit": 0}})
    await client.push("orders", 1, 2, 3, 4, partition="a")
    await client.settle(await client.pop("orders", batch=1), "completed")
    await client.settle(await client.pop("orders", batch=1), "failed", "no stock")
    await client.pop("orders", batch=1)

    found = await client.get(STATUS)

    assert found["messages"] == {
        "total": 4,
        "pending": 1,
        "processing": 1,
        "completed": 2,
        "failed": 0,
        "deadLetter": 1,
        "requests": 5,
        "batchEfficiency": {"push": 4, "pop": 1, "ack": 1},
    }
    assert found["leases"] == {
        "active": 1,
        "partitionsWithLeases": 1,
        "totalBatchSize": 1,
        "totalAcked": 0,
    }
    assert found["deadLetterQueue"] == {
        "totalMessages": 1,
        "affectedPartitions": 1,
        "topErrors": [{"error": "no stock", "count": 1}],
    }
    assert [(each["name"], each["totalConsumed"]) for each in found["queues"]] == [("orders", 1)]
    assert found["errors"] == {"ackFailed": 0, "dlqCount": 1}
    assert len(found["workers"]) == 1


@pytest.mark.parametrize(
    ("minutes", "width"),
    [(60, 1), (61, 5), (360, 5), (361, 15), (1440, 15), (1441, 60), (10_080, 60), (10_081, 360)],
)
async def test_buckets_are_as_wide_as_the_time_is_long(
    client: Client, clock: ManualClock, minutes: int, width: int
) -> None:
    found = await client.get(STATUS, from_=at(clock, -60 * minutes), to=at(clock))

    assert found["bucketMinutes"] == width


async def test_the_status_is_of_some_queues_only_if_they_are_asked_for(client: Client) -> None:
    await client.push("shop.orders", 1, 2)
    await client.push("shop.payments", 3)
    await client.push("ops.orders", 4)

    async def ingested(**query: Any) -> int:
        found = await client.get(STATUS, **query)
        assert found["messages"]["total"] == sum(p["ingested"] for p in found["throughput"])
        return int(found["messages"]["total"])

    assert await ingested() == 4
    assert await ingested(queue="shop.orders") == 2
    assert await ingested(namespace="shop") == 3
    assert await ingested(task="orders") == 3
    await client.get(STATUS, status=404, queue="missing")


async def test_the_status_is_of_queues_that_the_caller_sees(client: Client) -> None:
    await client.push("orders", 1, 2)
    await client.push("payments", 3)
    client.badge.principal = somebody(Permission.STATUS, queues=("payments",))

    found = await client.get(STATUS)

    assert [queue["name"] for queue in found["queues"]] == ["payments"]
    assert sum(point["ingested"] for point in found["throughput"]) == 1
    await client.get(STATUS, status=403, queue="orders")


async def test_the_status_shows_error_texts_only_to_readers(client: Client) -> None:
    await client.post("/api/v1/configure", {"queue": "orders", "options": {"retryLimit": 0}})
    await client.push("orders", 1)
    await client.settle(await client.pop("orders"), "failed", "no stock")
    client.badge.principal = somebody(Permission.STATUS)

    found = await client.get(STATUS)

    assert found["deadLetterQueue"]["topErrors"] == [{"error": None, "count": 1}]


async def test_the_status_says_nothing_of_the_time_before_the_start(
    client: Client, clock: ManualClock
) -> None:
    found = await client.get(STATUS, from_=at(clock, -86_400))
    earlier = await client.get(STATUS, from_=at(clock, -86_400), to=at(clock, -3600))

    assert found["pointCount"] == 1
    assert earlier["throughput"] == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("from=yesterday", "from"),
        ("to=x", "to"),
        ("from=2030-01-02T00:00:00Z&to=2030-01-01T00:00:00Z", "from"),
        ("to=0001-01-01T00:00:00Z", "to"),
    ],
)
@pytest.mark.parametrize(
    "path",
    [
        "status",
        "status/analytics",
        "analytics/system-metrics",
        "analytics/worker-metrics",
        "analytics/queue-ops",
        "analytics/queue-lag",
        "analytics/retention",
    ],
)
async def test_a_time_that_cannot_be_is_refused(
    client: Client, path: str, query: str, field: str
) -> None:
    await client.refused("GET", f"/api/v1/{path}?{query}", field)


# Queues.


async def test_queues_show_how_long_their_oldest_message_waits(
    client: Client, clock: ManualClock
) -> None:
    await client.push("orders", 1)
    await client.push("payments", 2)
    await client.register("orders", "billing")
    clock.advance(3725)

    found = await client.get(f"{STATUS}/queues")

    orders, payments = found["queues"]
    assert orders["lag"] == {"seconds": 3725, "formatted": "1h 2m"}
    assert payments["lag"] is None
    assert orders["messages"]["pending"] == 1
    assert found["pagination"] == {"limit": 100, "offset": 0, "total": 2}


async def test_queues_come_in_pages_of_those_that_the_caller_sees(client: Client) -> None:
    for name in ("a", "b", "c", "hidden"):
        await client.push(name, 1)
    client.badge.principal = somebody(Permission.STATUS, queues=("a", "b", "c"))

    found = await client.get(f"{STATUS}/queues", limit=1, offset=1)

    assert [queue["name"] for queue in found["queues"]] == ["b"]
    assert found["pagination"]["total"] == 3
    await client.get(f"{STATUS}/queues/hidden", status=403)
    await client.get(f"{STATUS}/queues/hidden/messages", status=403)
    await client.refused("GET", f"{STATUS}/queues?limit=-5", "limit")


async def test_a_queue_shows_its_configuration_and_what_was_consumed(
    client: Client, clock: ManualClock
) -> None:
    await client.post("/api/v1/configure", {"queue": "orders", "options": {"maxSize": 9}})
    await client.push("orders", 1, 2, partition="a")
    await client.settle(await client.pop("orders", batch=1), "completed")

    found = await client.get(f"{STATUS}/queues/orders")

    assert found["queue"]["config"] == {
        "leaseTime": 300,
        "retryLimit": 3,
        "retryDelay": 1000,
        "ttl": 3600,
        "maxQueueSize": 9,
        "deadLetterQueue": False,
    }
    assert (found["totals"]["consumed"], found["totals"]["batches"]) == (1, 1)
    assert (found["totals"]["partitions"], found["totals"]["messages"]["pending"]) == (2, 1)
    default, a = found["partitions"]
    assert (a["name"], a["messages"]["completed"]) == ("a", 1)
    assert a["cursor"] == {"totalConsumed": 1, "batchesConsumed": 1}
    assert (a["lastActivity"], default["lastActivity"]) == (at(clock), None)
    await client.get(f"{STATUS}/queues/missing", status=404)


async def test_messages_of_a_queue_are_listed_however_old(
    client: Client, clock: ManualClock
) -> None:
    await client.push("orders", 1, 2, partition="a")
    clock.advance(86_400)
    await client.push("orders", 3, partition="b")
    path = f"{STATUS}/queues/orders/messages"

    found = await client.get(path)
    partition = await client.get(path, partition="a", limit=1)
    rest = await client.get(path, partition="a", limit=1, before=partition["next"])

    assert [message["payload"] for message in found["messages"]] == [3, 2, 1]
    assert [message["payload"] for message in partition["messages"]] == [2]
    assert [message["payload"] for message in rest["messages"]] == [1]
    assert (await client.get(path, status_="completed"))["messages"] == []
    await client.get(path, status=404, partition="missing")
    await client.get(f"{STATUS}/queues/missing/messages", status=404)
    await client.refused("GET", f"{path}?status=lost", "status")


async def test_messages_of_a_queue_have_payloads_for_who_may_read_them(client: Client) -> None:
    await client.push("orders", "secret")
    client.badge.principal = somebody(Permission.STATUS)

    found = await client.get(f"{STATUS}/queues/orders/messages")

    assert "payload" not in found["messages"][0]


async def test_there_are_no_buffers(client: Client, broker: Broker) -> None:
    healthy = await client.get(f"{STATUS}/buffers")

    assert healthy == {"pendingCount": 0, "dbHealthy": True}


async def test_a_refresh_needs_no_body_and_finds_what_is_there(client: Client) -> None:
    await client.push("shop.orders", 1)

    found = await client.ask("POST", "/api/v1/stats/refresh")

    assert {step: each["count"] for step, each in found.items()} == {
        "partition": 1,
        "queue": 1,
        "namespace": 1,
        "task": 1,
        "system": 1,
        "cleanup": 0,
    }
    client.badge.principal = somebody(*set(Permission) - {Permission.ADMIN})
    await client.ask("POST", "/api/v1/stats/refresh", 403)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0s"), (59, "59s"), (60, "1m"), (3725, "1h 2m"), (90_061, "1d 1h")],
)
def test_a_stretch_of_time_in_words(seconds: float, words: str) -> None:
    assert to_duration_text(seconds) == words
