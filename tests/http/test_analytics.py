"""What happened, over time."""

import asyncio

import pytest

from skep import Broker
from skep.http.auth.principal import Permission
from skep.testing.clock import ManualClock
from tests.support.broker_builders import finish, long_poll
from tests.support.http.json_client import Client, at, somebody

ANALYTICS = "/api/v1/analytics"


async def work(client: Client, queue: str, messages: int) -> None:
    """Push, pop and acknowledge."""
    await client.push(queue, *range(messages))
    await client.settle(await client.pop(queue, batch=messages), "completed")


async def test_pushes_are_counted_by_the_minute_hour_or_day(
    client: Client, clock: ManualClock
) -> None:
    await work(client, "orders", 2)
    clock.advance(3600)
    await work(client, "payments", 3)

    hours = await client.get("/api/v1/status/analytics", from_=at(clock, -7200))
    minutes = await client.get("/api/v1/status/analytics", interval="minute")

    assert [(p["timestamp"], p["messages"], p["processed"]) for p in hours["dataPoints"]] == [
        (at(clock, -3600), 2, 2),
        (at(clock), 3, 3),
    ]
    assert (hours["interval"], hours["from"], hours["to"]) == ("hour", at(clock, -7200), at(clock))
    assert [(q["name"], q["messagesIngested"]) for q in hours["topQueues"]] == [
        ("payments", 3),
        ("orders", 2),
    ]
    assert len(minutes["dataPoints"]) == 61
    await client.refused("GET", "/api/v1/status/analytics?interval=week", "interval")


async def test_the_server_says_what_it_takes_now_and_nothing_of_the_past(
    client: Client, clock: ManualClock
) -> None:
    found = await client.get(f"{ANALYTICS}/system-metrics")
    past = await client.get(f"{ANALYTICS}/system-metrics", to=at(clock, -60))

    (replica,) = found["replicas"]
    (point,) = replica["timeSeries"]
    assert (found["replicaCount"], found["pointCount"]) == (1, 1)
    assert (point["timestamp"], point["usage"]["rssBytes"] > 0) == (at(clock), True)
    assert replica["workerId"]
    assert past["replicas"][0]["timeSeries"] == []


async def test_the_worker_says_what_it_did(client: Client, clock: ManualClock) -> None:
    await client.push("orders", 1, 2)
    clock.advance(2)
    await client.settle(await client.pop("orders", batch=2), "completed")
    await work(client, "payments", 1)

    found = await client.get(f"{ANALYTICS}/worker-metrics")
    one = await client.get(f"{ANALYTICS}/worker-metrics", queue="payments")

    assert found["summary"] == {
        "totalPushMessages": 3,
        "totalPopMessages": 3,
        "totalAckMessages": 3,
        "totalFailedMessages": 0,
        "totalDeadLetters": 0,
        "avgLagMs": 1000,
        "maxLagMs": 2000,
    }
    assert [(q["queue"], q["pushMessages"]) for q in found["queues"]] == [
        ("orders", 2),
        ("payments", 1),
    ]
    assert (found["pointCount"], len(found["timeSeries"]), len(found["workers"])) == (1, 1, 1)
    assert one["summary"]["totalPushMessages"] == 1


async def test_statistics_of_postgresql_are_marked_as_not_collected(client: Client) -> None:
    found = await client.get(f"{ANALYTICS}/postgres-stats")

    assert found.pop("collected") is False
    assert "pg_stat" in found.pop("reason")
    assert set(found) == {
        "databaseCache",
        "tableCache",
        "indexCache",
        "cacheSummary",
        "deadTuples",
        "hotUpdates",
        "activeQueries",
        "autovacuumStatus",
        "bufferConfig",
        "bufferUsage",
        "tableSizes",
    }
    assert all(value == [] for value in found.values())


async def test_operations_are_shown_by_queue_where_something_happened(
    client: Client, clock: ManualClock
) -> None:
    await work(client, "orders", 2)
    clock.advance(120)
    await work(client, "orders", 1)
    await work(client, "payments", 1)

    found = await client.get(f"{ANALYTICS}/queue-ops")

    assert [(row["bucket"], row["queue"], row["pushMessages"]) for row in found["series"]] == [
        (at(clock, -120), "orders", 2),
        (at(clock), "orders", 1),
        (at(clock), "payments", 1),
    ]
    assert found["queues"] == ["orders", "payments"]
    assert found["series"][0]["ackMessages"] == 2


async def test_lag_is_shown_as_it_was_and_as_it_is(client: Client, clock: ManualClock) -> None:
    await client.push("orders", 1, 2)
    clock.advance(10)
    await client.settle(await client.pop("orders", batch=1, consumerGroup="billing"), "completed")

    found = await client.get(f"{ANALYTICS}/queue-lag", queue="orders")

    (row,) = found["series"]
    assert (row["queue"], row["maxLagMs"]) == ("orders", 10_000)
    assert found["queues"] == [
        {"queue": "orders", "consumerGroup": "billing", "pending": 1, "lagSeconds": 10}
    ]


async def test_who_waits_is_shown(client: Client, broker: Broker) -> None:
    await broker.queues.configure("orders")
    poll = await long_poll(broker, group="billing")
    await asyncio.sleep(0)

    found = await client.get(f"{ANALYTICS}/queue-parked-replicas")

    (row,) = found["replicas"]
    assert (row["queue"], row["consumerGroup"], row["parked"]) == ("orders", "billing", 1)
    assert found["total"] == 1
    broker.drain()
    assert await finish(poll) is None


async def test_what_left_the_queues_is_shown_by_rule(
    client: Client, broker: Broker, clock: ManualClock
) -> None:
    options = {"retentionEnabled": True, "retentionSeconds": 60}
    await client.post("/api/v1/configure", {"queue": "old", "options": options})
    await client.post("/api/v1/configure", {"queue": "late", "options": {"maxWaitTimeSeconds": 30}})
    await client.push("old", 1, 2)
    await client.push("late", 3)
    await client.push("cleared", 4, 5, 6)
    await client.register("late", "billing")
    clock.advance(90)
    await broker.sweep()
    await client.delete("/api/v1/queues/cleared/clear")

    found = await client.get(f"{ANALYTICS}/retention")
    old = await client.get(f"{ANALYTICS}/retention", queue="old")
    past = await client.get(f"{ANALYTICS}/retention", to=at(clock, -60))

    assert found["totals"] == {
        "retentionMsgs": 2,
        "completedRetentionMsgs": 0,
        "evictionMsgs": 1,
        "clearedMsgs": 3,
        "totalMsgs": 6,
        "eventCount": 3,
    }
    assert [row["bucket"] for row in found["series"]] == [at(clock, -30)]
    assert old["totals"]["totalMsgs"] == 2
    assert past["series"] == []


async def test_how_long_messages_took_is_shown_by_group_and_minute(
    client: Client, clock: ManualClock
) -> None:
    await client.push("orders", 1)
    clock.advance(10)
    await client.push("orders", 2, 3)
    delivery = await client.pop("orders", batch=3, consumerGroup="billing")
    clock.advance(5)
    await client.settle(delivery, "completed")

    found = await client.get(f"{ANALYTICS}/latencies")

    (row,) = found["series"]
    assert (row["queue"], row["consumerGroup"], row["messages"]) == ("orders", "billing", 3)
    assert row["beginsAt"] == at(clock, -15)
    assert row["buckets"] == [[pytest.approx(5, rel=0.02), 2], [pytest.approx(15, rel=0.02), 1]]
    assert found["next"] is None
    assert (await client.get(f"{ANALYTICS}/latencies", to=at(clock, -60)))["series"] == []


async def test_latencies_end_where_the_caller_sees_no_more(
    client: Client, clock: ManualClock
) -> None:
    await work(client, "orders", 1)
    clock.advance(60)
    await work(client, "payments", 1)
    client.badge.principal = somebody(Permission.STATUS, queues=("orders",))

    found = await client.get(f"{ANALYTICS}/latencies", limit=1)

    assert [row["queue"] for row in found["series"]] == ["orders"]
    assert found["next"] is None


async def test_latencies_go_on_with_the_next_minute(client: Client, clock: ManualClock) -> None:
    await work(client, "orders", 1)
    await work(client, "payments", 1)
    clock.advance(120)
    await work(client, "orders", 1)

    first = await client.get(f"{ANALYTICS}/latencies", limit=1)
    second = await client.get(f"{ANALYTICS}/latencies", limit=1, from_=first["next"])

    assert [row["queue"] for row in first["series"]] == ["orders", "payments"]
    assert first["next"] == at(clock)
    assert [(row["queue"], row["beginsAt"]) for row in second["series"]] == [("orders", at(clock))]
    assert second["next"] is None
    await client.refused("GET", f"{ANALYTICS}/latencies?limit=0", "limit")


@pytest.mark.parametrize(
    "path", ["worker-metrics", "queue-ops", "queue-lag", "latencies", "retention"]
)
async def test_numbers_of_queues_that_the_caller_does_not_see_are_not_shown(
    client: Client, path: str
) -> None:
    await work(client, "orders", 2)
    await client.delete("/api/v1/queues/orders/clear")
    client.badge.principal = somebody(Permission.STATUS, queues=("payments",))

    found = await client.get(f"{ANALYTICS}/{path}")

    assert "orders" not in str(found)
    assert found.get("series", []) == []
    await client.get(f"{ANALYTICS}/{path}", status=403, queue="orders")


@pytest.mark.parametrize(
    "path",
    [
        "system-metrics",
        "worker-metrics",
        "postgres-stats",
        "queue-ops",
        "queue-lag",
        "latencies",
        "queue-parked-replicas",
        "retention",
    ],
)
async def test_numbers_need_the_permission(client: Client, path: str) -> None:
    client.badge.principal = somebody(Permission.PUSH, Permission.POP)

    await client.get(f"{ANALYTICS}/{path}", status=403)
