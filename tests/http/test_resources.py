"""Queues, partitions and labels in numbers."""

import pytest

from skep.http.auth.principal import Permission
from skep.testing.clock import ManualClock
from tests.support.broker_builders import turn
from tests.support.http.json_client import Client, at, somebody


def numbers(**some: int) -> dict[str, int]:
    names = ("total", "pending", "processing", "completed", "failed", "deadLetter")
    return {name: some.get(name, 0) for name in names}


async def test_the_overview_sums_up_what_is_there(client: Client, clock: ManualClock) -> None:
    await client.post("/api/v1/configure", {"queue": "shop.orders", "options": {"retryLimit": 0}})
    await client.push("shop.orders", 1, 2, 3, partition="a")
    await client.push("shop.payments", 4, partition="b")
    await client.settle(await client.pop("shop.orders", batch=1), "failed", "broken")
    await client.pop("shop.orders", batch=1)
    clock.advance(30)

    found = await client.get("/api/v1/resources/overview")

    assert (found["queues"], found["partitions"]) == (2, 3)
    assert (found["namespaces"], found["tasks"]) == (1, 2)
    assert found["messages"] == numbers(total=4, pending=2, processing=1, completed=1, deadLetter=1)
    assert found["lag"]["offset"] == {"avg": 2, "median": 2, "min": 2, "max": 2}
    assert found["lag"]["time"]["max"] == 30
    assert found["throughput"]["ingestedPerSecond"] == pytest.approx(4 / 30)
    assert found["timestamp"] == at(clock)


async def test_an_empty_server_has_an_overview_of_zeros(client: Client) -> None:
    found = await client.get("/api/v1/resources/overview")

    assert found["messages"] == numbers()
    assert found["lag"]["time"] == {"avg": 0, "median": 0, "min": 0, "max": 0}


async def test_queues_are_listed_by_name_and_label_in_pages(
    client: Client, clock: ManualClock
) -> None:
    for name in ("shop.orders", "ops.orders", "shop.payments"):
        await client.push(name, 1, 2)

    found = await client.get("/api/v1/resources/queues")
    shop = await client.get("/api/v1/resources/queues", namespace="shop", limit=1, offset=1)
    orders = await client.get("/api/v1/resources/queues", task="orders")

    assert [queue["name"] for queue in found["queues"]] == [
        "ops.orders",
        "shop.orders",
        "shop.payments",
    ]
    assert [queue["name"] for queue in shop["queues"]] == ["shop.payments"]
    assert (shop["total"], orders["total"]) == (2, 2)
    queue = found["queues"][0]
    assert (queue["namespace"], queue["task"], queue["partitions"]) == ("ops", "orders", 1)
    assert queue["createdAt"] == at(clock)
    assert queue["messages"] == numbers(total=2, pending=2)


async def test_only_queues_that_the_caller_sees_are_listed_and_counted(client: Client) -> None:
    for name in ("shop.orders", "ops.orders"):
        await client.push(name, 1)
    client.badge.principal = somebody(Permission.STATUS, queues=("shop.*",))

    queues = await client.get("/api/v1/resources/queues")
    overview = await client.get("/api/v1/resources/overview")
    namespaces = await client.get("/api/v1/resources/namespaces")
    partitions = await client.get("/api/v1/resources/partitions")

    assert [queue["name"] for queue in queues["queues"]] == ["shop.orders"]
    assert (overview["queues"], overview["messages"]["total"]) == (1, 1)
    assert overview["throughput"]["ingestedPerSecond"] == 1
    assert [row["namespace"] for row in namespaces["namespaces"]] == ["shop"]
    assert [row["queue"] for row in partitions["partitions"]] == ["shop.orders"]
    await client.get("/api/v1/resources/queues/ops.orders", status=403)
    await client.get("/api/v1/resources/queues/ops.orders/depth", status=403)
    await client.get("/api/v1/resources/partitions", status=403, queue="ops.orders")


async def test_a_queue_is_shown_with_its_partitions(client: Client, clock: ManualClock) -> None:
    await client.push("orders", 1, 2, partition="a")
    clock.advance(5)
    (pushed,) = await client.push("orders", 3, partition="b")
    popped = await client.pop("orders/partition/a", batch=1)

    found = await client.get("/api/v1/resources/queues/orders")

    assert (found["name"], found["options"]["leaseTime"]) == ("orders", 300)
    assert found["totals"] == numbers(total=3, pending=2, processing=1)
    a, b = found["partitions"]
    assert (a["name"], a["id"]) == ("a", popped["partitionId"])
    assert a["stats"] == numbers(total=2, pending=1, processing=1)
    assert (a["oldestMessage"], a["newestMessage"]) == (at(clock, -5), at(clock, -5))
    assert (b["id"], b["createdAt"]) == (pushed["partition_id"], at(clock))


async def test_partitions_of_a_queue_come_in_pages_and_totals_are_of_all(client: Client) -> None:
    for partition in "abc":
        await client.push("orders", 1, partition=partition)

    found = await client.get("/api/v1/resources/queues/orders", limit=1, offset=1)

    assert [partition["name"] for partition in found["partitions"]] == ["b"]
    assert (found["partitionCount"], found["totals"]["total"]) == (3, 3)


async def test_a_queue_that_is_not_there_is_not_found(client: Client) -> None:
    problem = await client.get("/api/v1/resources/queues/missing", status=404)

    assert "missing" in problem["error"]
    await client.get("/api/v1/resources/queues/missing/depth", status=404)
    await client.get("/api/v1/resources/partitions", status=404, queue="missing")


async def test_labels_are_summed_up(client: Client) -> None:
    await client.push("shop.orders", 1, 2)
    await client.push("ops.orders", 3)
    await client.push("plain", 4)

    namespaces = await client.get("/api/v1/resources/namespaces")
    tasks = await client.get("/api/v1/resources/tasks")

    assert [(row["namespace"], row["queues"]) for row in namespaces["namespaces"]] == [
        (None, 1),
        ("ops", 1),
        ("shop", 1),
    ]
    assert [(row["task"], row["queues"]) for row in tasks["tasks"]] == [(None, 1), ("orders", 2)]
    assert tasks["tasks"][1]["messages"] == numbers(total=3, pending=3)


async def test_partitions_are_listed_by_depth_across_queues_in_pages(client: Client) -> None:
    await client.push("orders", 1, 2, 3, partition="deep")
    await client.push("orders", 1, partition="flat")
    await client.push("payments", 1, 2, partition="deep")

    deep = await client.get("/api/v1/resources/partitions", minDepth=2)
    second = await client.get("/api/v1/resources/partitions", minDepth=1, limit=1, offset=2)
    one = await client.get("/api/v1/resources/partitions", queue="payments")

    assert [(row["queue"], row["name"], row["depth"]) for row in deep["partitions"]] == [
        ("orders", "deep", 3),
        ("payments", "deep", 2),
    ]
    assert [(row["queue"], row["name"]) for row in second["partitions"]] == [("payments", "deep")]
    assert [row["total"] for row in one["partitions"]] == [2]


async def test_depth_is_what_a_group_has_before_it(client: Client) -> None:
    await client.push("orders", 1, 2, partition="a")
    await client.push("orders", 3, partition="b")
    await client.settle(
        await client.pop("orders/partition/a", batch=2, consumerGroup="billing"), "completed"
    )

    found = await client.get("/api/v1/resources/queues/orders/depth", group="billing")
    everybody = await client.get("/api/v1/resources/queues/orders/depth")

    assert found == {
        "queue": "orders",
        "group": "billing",
        "pending": 1,
        "partitionsPending": 1,
        "effectivePending": 1,
        "partitions": [{"partition": "b", "pending": 1}],
    }
    assert (everybody["group"], everybody["pending"]) == ("__QUEUE_MODE__", 3)
    await client.get("/api/v1/resources/queues/orders/depth", status=404, group="unknown")


@pytest.mark.parametrize("query", ["limit=0", "limit=-1", "limit=x", "limit=1000000", "limit=1.5"])
@pytest.mark.parametrize("place", ["queues", "partitions"])
async def test_a_limit_that_cannot_be_is_refused(client: Client, place: str, query: str) -> None:
    await client.refused("GET", f"/api/v1/resources/{place}?{query}", "limit")


@pytest.mark.parametrize(("query", "field"), [("offset=-1", "offset"), ("minDepth=-2", "minDepth")])
async def test_a_number_below_zero_is_refused(client: Client, query: str, field: str) -> None:
    await client.refused("GET", f"/api/v1/resources/partitions?{query}", field)


async def test_unknown_parameters_are_ignored(client: Client) -> None:
    await client.get("/api/v1/resources/queues", unknown="1")


async def test_what_lies_aside_is_shown_nowhere_and_counted_once(client: Client) -> None:
    await client.post("/api/v1/system/maintenance", {"enabled": True})
    await client.push("orders", 1, 2)

    buffers = await client.get("/api/v1/status/buffers")
    during = await client.get("/api/v1/resources/overview")
    groups = await client.get("/api/v1/consumer-groups")
    listed = await client.get("/api/v1/messages")
    await client.post("/api/v1/system/maintenance", {"enabled": False})
    await turn()
    after = await client.get("/api/v1/status")

    assert buffers["pendingCount"] == 2
    assert (during["queues"], during["messages"]["total"]) == (0, 0)
    assert (groups, listed["messages"]) == ([], [])
    assert [queue["name"] for queue in after["queues"]] == ["orders"]
    assert sum(point["ingested"] for point in after["throughput"]) == 2
