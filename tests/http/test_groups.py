"""Consumer groups: how far they are, and moving them."""

from typing import Any

import pytest

from skep.http.auth.principal import Permission
from skep.model.lease_id import worker_id_of
from skep.testing.clock import ManualClock
from tests.support.http.json_client import Client, at, somebody

GROUPS = "/api/v1/consumer-groups"


async def cursors(client: Client, group: str = "billing", queue: str = "orders") -> dict[str, int]:
    found = await client.get(f"{GROUPS}/{group}")
    return {place["partition"]: place["offset"] for place in found[queue]["partitions"]}


async def read_all(client: Client, queue: str = "orders", group: str = "billing") -> None:
    await client.get(
        f"/api/v1/pop/queue/{queue}",
        batch=100,
        partitions=100,
        consumerGroup=group,
        autoAck="true",
    )


async def test_a_group_is_listed_once_per_queue_with_its_exact_lag(
    client: Client, clock: ManualClock
) -> None:
    await client.push("orders", 1, 2, 3)
    await client.push("payments", 4)
    await client.settle(await client.pop("orders", consumerGroup="billing"), "completed")
    clock.advance(20)
    await client.pop("orders", consumerGroup="billing")
    await client.register("payments", "billing")

    orders, payments = await client.get(GROUPS)

    assert orders == {
        "name": "billing",
        "topics": ["orders"],
        "queueName": "orders",
        "members": 1,
        "partitions": 1,
        "leasedPartitions": 1,
        "partitionsWithLag": 1,
        "totalLag": 2,
        "maxTimeLag": 20,
        "oldestAt": at(clock, -20),
        "state": "Stable",
        "subscriptionMode": "all",
        "subscriptionTimestamp": None,
        "subscriptionCreatedAt": at(clock, -20),
    }
    assert (payments["queueName"], payments["totalLag"]) == ("payments", 1)


async def test_a_group_lags_when_a_message_waits_longer_than_five_minutes(
    client: Client, clock: ManualClock
) -> None:
    await client.push("orders", 1)
    await client.register("orders", "billing")
    clock.advance(301)

    (row,) = await client.get(GROUPS)

    assert (row["state"], row["maxTimeLag"]) == ("Lagging", 301)


async def test_one_group_is_shown_by_queue_and_partition(
    client: Client, clock: ManualClock
) -> None:
    await client.push("orders", 1, 2, partition="a")
    clock.advance(4)
    popped = await client.pop("orders", consumerGroup="billing")

    found = await client.get(f"{GROUPS}/billing")

    (place,) = found["orders"]["partitions"]
    assert place == {
        "partition": "a",
        "partitionId": popped["partitionId"],
        "workerId": worker_id_of(popped["leaseId"]),
        "lastConsumedAt": None,
        "totalConsumed": 0,
        "offset": 0,
        "end": 2,
        "offsetLag": 2,
        "timeLagSeconds": 4,
        "oldestAt": at(clock, -4),
        "attempt": 1,
        "batchesConsumed": 0,
        "leaseActive": True,
        "leaseExpiresAt": at(clock, 300),
    }


async def test_a_group_that_never_popped_is_not_found(client: Client) -> None:
    await client.get(f"{GROUPS}/unknown", status=404)


async def test_a_group_named_lagging_does_not_hide_those_that_lag(
    client: Client, clock: ManualClock
) -> None:
    await client.push("orders", 1, partition="old")
    clock.advance(50)
    await client.push("orders", 2, partition="new")
    await client.register("orders", "lagging")
    clock.advance(20)

    found = await client.get(f"{GROUPS}/lagging", minLagSeconds=60)

    (row,) = found
    assert (row["consumer_group"], row["queue_name"]) == ("lagging", "orders")
    assert (row["partition_name"], row["offset_lag"]) == ("old", 1)
    assert (row["time_lag_seconds"], row["oldest_unconsumed_at"]) == (70, at(clock, -70))
    assert await client.get(f"{GROUPS}/lagging") == []


async def test_only_groups_of_queues_that_the_caller_sees_are_shown(client: Client) -> None:
    for queue in ("orders", "payments"):
        await client.push(queue, 1)
        await client.register(queue, "billing")
    client.badge.principal = somebody(Permission.STATUS, queues=("orders",))

    assert [row["queueName"] for row in await client.get(GROUPS)] == ["orders"]
    assert list(await client.get(f"{GROUPS}/billing")) == ["orders"]
    assert len(await client.get(f"{GROUPS}/lagging", minLagSeconds=0)) == 1


# Deleting.


async def test_a_deleted_group_starts_anew(client: Client) -> None:
    for queue in ("orders", "payments"):
        await client.push(queue, 1)
        await read_all(client, queue)

    deleted = await client.delete(f"{GROUPS}/billing")

    assert deleted == {
        "success": True,
        "consumerGroup": "billing",
        "queueName": None,
        "deletedPartitions": 2,
        "metadataDeleted": True,
    }
    assert await client.get(GROUPS) == []
    assert (await client.pop("orders", consumerGroup="billing"))["messages"]


async def test_a_group_is_deleted_in_one_queue_only(client: Client) -> None:
    for queue in ("orders", "payments"):
        await client.push(queue, 1)
        await read_all(client, queue)

    deleted = await client.delete(f"{GROUPS}/billing/queues/orders")

    assert (deleted["queueName"], deleted["deletedPartitions"]) == ("orders", 1)
    assert [row["queueName"] for row in await client.get(GROUPS)] == ["payments"]


async def test_a_group_whose_metadata_stays_reads_again_from_where_it_started(
    client: Client, clock: ManualClock
) -> None:
    await client.push("orders", 1)
    clock.advance(1)
    await client.get(
        "/api/v1/pop/queue/orders", status=204, consumerGroup="billing", subscriptionMode="new"
    )
    clock.advance(1)
    await client.push("orders", 2)
    await read_all(client)

    deleted = await client.delete(f"{GROUPS}/billing", deleteMetadata="false")

    assert (deleted["metadataDeleted"], deleted["deletedPartitions"]) == (False, 1)
    popped = await client.pop("orders", consumerGroup="billing", batch=9)
    assert [message["data"] for message in popped["messages"]] == [2]


async def test_deleting_a_group_that_is_not_there_deletes_nothing(client: Client) -> None:
    await client.push("orders", 1)

    nowhere = await client.delete(f"{GROUPS}/unknown")
    here = await client.delete(f"{GROUPS}/unknown/queues/orders")

    assert (nowhere["deletedPartitions"], nowhere["metadataDeleted"]) == (0, False)
    assert here["deletedPartitions"] == 0
    await client.delete(f"{GROUPS}/unknown/queues/missing", status=404)


async def test_a_group_is_deleted_only_where_the_caller_may(client: Client) -> None:
    for queue in ("orders", "payments"):
        await client.push(queue, 1)
        await read_all(client, queue)

    client.badge.principal = somebody(Permission.ADMIN, Permission.STATUS, queues=("orders",))
    await client.delete(f"{GROUPS}/billing/queues/payments", status=403)
    deleted = await client.delete(f"{GROUPS}/billing")
    client.badge.principal = somebody(Permission.STATUS)

    assert deleted["deletedPartitions"] == 1
    assert [row["queueName"] for row in await client.get(GROUPS)] == ["payments"]


# Moving.


async def test_a_subscription_changes_where_nothing_was_read_yet(
    client: Client, clock: ManualClock
) -> None:
    for partition in ("read", "unread"):
        await client.push("orders", 1, 2, partition=partition)
    clock.advance(10)
    for partition in ("read", "unread"):
        await client.push("orders", 3, partition=partition)
    await client.pop("orders/partition/read", consumerGroup="billing", autoAck="true")

    answer = await client.post(
        f"{GROUPS}/billing/subscription", {"subscriptionTimestamp": at(clock, -5)}
    )

    assert answer == {
        "success": True,
        "consumerGroup": "billing",
        "newTimestamp": at(clock, -5),
        "rowsUpdated": 1,
        "partitionsUpdated": 1,
    }
    assert await cursors(client) == {"read": 1, "unread": 2}


async def test_a_subscription_is_changed_in_one_queue_only_by_who_may(
    client: Client, clock: ManualClock
) -> None:
    for queue in ("orders", "payments"):
        await client.push(queue, 1, partition="unread")
        await client.get(
            f"/api/v1/pop/queue/{queue}/partition/Default", status=204, consumerGroup="billing"
        )
    body = {"subscriptionTimestamp": at(clock), "queueName": "orders"}
    client.badge.principal = somebody(Permission.OPERATE, queues=("payments",))

    await client.post(f"{GROUPS}/billing/subscription", body, status=403)
    client.badge.principal = somebody(Permission.OPERATE, queues=("orders",))
    answer = await client.post(f"{GROUPS}/billing/subscription", body)

    assert (answer["rowsUpdated"], answer["partitionsUpdated"]) == (1, 1)


@pytest.mark.parametrize(
    "body", [{}, {"subscriptionTimestamp": "soon"}, {"subscriptionTimestamp": 7}]
)
async def test_a_subscription_needs_a_time(client: Client, body: dict[str, Any]) -> None:
    await client.push("orders", 1)
    await client.register("orders", "billing")

    await client.refused(
        "POST", f"{GROUPS}/billing/subscription", "subscriptionTimestamp", json=body
    )


async def test_a_subscription_of_nobody_is_not_found(client: Client, clock: ManualClock) -> None:
    await client.post(
        f"{GROUPS}/unknown/subscription", {"subscriptionTimestamp": at(clock)}, status=404
    )


async def test_a_seek_moves_all_partitions(client: Client, clock: ManualClock) -> None:
    for partition in ("a", "b"):
        await client.push("orders", 1, 2, partition=partition)
    clock.advance(10)
    await client.push("orders", 3, partition="a")
    await client.register("orders", "billing")
    path = f"{GROUPS}/billing/queues/orders/seek"

    end = await client.post(path, {"toEnd": True})
    assert end == {
        "success": True,
        "consumerGroup": "billing",
        "queueName": "orders",
        "seekToEnd": True,
        "seekToBeginning": False,
        "targetTimestamp": None,
        "targetOffset": None,
        "partitionsUpdated": 2,
    }
    assert await cursors(client) == {"a": 3, "b": 2}
    timed = await client.post(path, {"timestamp": at(clock, -1), "toEnd": False})
    assert timed["targetTimestamp"] == at(clock, -1)
    assert await cursors(client) == {"a": 2, "b": 2}
    await client.post(path, {"toBeginning": True})
    assert await cursors(client) == {"a": 0, "b": 0}
    await client.post(path, {"offset": 1})
    assert await cursors(client) == {"a": 1, "b": 1}


async def test_a_seek_of_one_partition_leaves_the_others(client: Client) -> None:
    await client.push("orders", 1, 2, partition="a/b")
    await client.push("orders", 1, 2, partition="c")
    await client.register("orders", "billing")

    answer = await client.post(
        f"{GROUPS}/billing/queues/orders/partitions/a%2Fb/seek", {"offset": 1}
    )

    assert (answer["updated"], answer["cursorMovedTo"]) == (True, 1)
    assert (answer["partitionName"], answer["targetOffset"]) == ("a/b", 1)
    assert await cursors(client) == {"a/b": 1, "c": 0}


async def test_what_was_read_before_a_seek_back_is_delivered_again_at_once(
    client: Client,
) -> None:
    await client.push("orders", 1)
    await read_all(client)
    await client.get("/api/v1/pop/queue/orders", status=204, consumerGroup="billing")

    await client.post(f"{GROUPS}/billing/queues/orders/seek", {"toBeginning": True})

    assert (await client.pop("orders", consumerGroup="billing"))["messages"][0]["data"] == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "toEnd"),
        ({"toEnd": False}, "toEnd"),
        ({"toEnd": "yes"}, "toEnd"),
        ({"timestamp": "yesterday"}, "timestamp"),
        ({"offset": -1}, "offset"),
        ({"offset": 2}, "offset"),
        ({"offset": "1"}, "offset"),
        ({"toEnd": True, "offset": 1}, "toEnd, offset"),
    ],
)
async def test_a_seek_to_nowhere_is_refused_and_moves_nothing(
    client: Client, body: dict[str, Any], field: str
) -> None:
    await client.push("orders", 1, 2, partition="a")
    await client.push("orders", 1, partition="b")
    await client.register("orders", "billing")

    await client.refused("POST", f"{GROUPS}/billing/queues/orders/seek", field, json=body)

    assert await cursors(client) == {"a": 0, "b": 0}


async def test_a_seek_of_what_is_not_there_is_not_found(client: Client) -> None:
    await client.push("orders", 1)
    await client.register("orders", "billing")
    to_end = {"toEnd": True}

    await client.post(f"{GROUPS}/unknown/queues/orders/seek", to_end, status=404)
    await client.post(f"{GROUPS}/billing/queues/missing/seek", to_end, status=404)
    await client.post(f"{GROUPS}/billing/queues/orders/partitions/missing/seek", to_end, status=404)


@pytest.mark.parametrize("query", ["minLagSeconds=-1", "minLagSeconds=x"])
async def test_a_lag_that_cannot_be_is_refused(client: Client, query: str) -> None:
    await client.refused("GET", f"{GROUPS}/lagging?{query}", "minLagSeconds")


async def test_moving_groups_needs_the_permission_and_the_queue(client: Client) -> None:
    await client.push("orders", 1)
    await client.register("orders", "billing")
    path = f"{GROUPS}/billing/queues/orders/seek"

    client.badge.principal = somebody(Permission.STATUS, Permission.READ, Permission.POP)
    await client.post(path, {"toEnd": True}, status=403)
    client.badge.principal = somebody(*Permission, queues=("payments",))
    await client.post(path, {"toEnd": True}, status=403)
    client.badge.principal = somebody(Permission.STATUS)

    assert await cursors(client) == {"Default": 0}
