"""Configuring, deleting and clearing queues."""

from typing import Any

import msgspec
import pytest

from skep import Broker, QueueOptions
from skep.http.auth.principal import Permission
from skep.wire.admin.queue import WireOptions
from tests.support.http.json_client import Client, somebody

OPTIONS = {
    "leaseTime": 60,
    "retryLimit": 7,
    "retryDelay": 250,
    "priority": 5,
    "maxSize": 1000,
    "ttl": 7200,
    "deadLetterQueue": True,
    "dlqAfterMaxRetries": True,
    "delayedProcessing": 2,
    "windowBuffer": 3,
    "retentionSeconds": 86400,
    "completedRetentionSeconds": 3600,
    "retentionEnabled": True,
    "encryptionEnabled": True,
    "maxWaitTimeSeconds": 90,
}
DEFAULTS = {
    "leaseTime": 300,
    "retryLimit": 3,
    "retryDelay": 1000,
    "priority": 0,
    "maxSize": 0,
    "ttl": 3600,
    "deadLetterQueue": False,
    "dlqAfterMaxRetries": False,
    "delayedProcessing": 0,
    "windowBuffer": 0,
    "retentionSeconds": 0,
    "completedRetentionSeconds": 0,
    "retentionEnabled": False,
    "encryptionEnabled": False,
    "maxWaitTimeSeconds": 0,
}


async def configure(client: Client, queue: str = "orders", **body: Any) -> Any:
    return await client.post("/api/v1/configure", {"queue": queue, **body})


def test_the_wire_has_the_options_of_a_queue_and_no_others() -> None:
    ours = {field.name: field.default for field in msgspec.structs.fields(QueueOptions)}
    theirs = {field.name: field.default for field in msgspec.structs.fields(WireOptions)}

    assert theirs == ours


async def test_all_fifteen_options_are_echoed_as_they_were_given(client: Client) -> None:
    answer = await configure(client, namespace="shop", task="sell", options=OPTIONS)

    assert answer["configured"] is True
    assert (answer["queue"], answer["namespace"], answer["task"]) == ("orders", "shop", "sell")
    assert answer["options"] == OPTIONS


async def test_an_option_that_is_left_out_goes_back_to_its_default(client: Client) -> None:
    await configure(client, options=OPTIONS)

    answer = await configure(client, options={"leaseTime": 10})

    assert answer["options"] == DEFAULTS | {"leaseTime": 10}
    assert (await configure(client))["options"] == DEFAULTS


async def test_labels_are_derived_from_the_name_unless_they_are_given(client: Client) -> None:
    derived = await configure(client, "shop.orders.eu", namespace=None, task=None)
    given = await configure(client, "shop.orders.eu", namespace="other")
    plain = await configure(client, "orders")

    assert (derived["namespace"], derived["task"]) == ("shop", "orders")
    assert (given["namespace"], given["task"]) == ("other", "orders")
    assert (plain["namespace"], plain["task"]) == (None, None)


async def test_configuring_makes_the_default_partition_that_pushes_then_use(
    client: Client,
) -> None:
    answer = await configure(client)

    (pushed,) = await client.push("orders", 1)

    assert pushed["partition_id"] == answer["partitionId"]
    assert (await configure(client))["queueId"] == answer["queueId"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "queue"),
        ({"queue": 7}, "queue"),
        ({"queue": ""}, "queue"),
        ({"queue": "a\nb"}, "queue"),
        ({"queue": "orders", "namespace": 7}, "namespace"),
        ({"queue": "orders", "namespace": "x" * 300}, "namespace"),
        ({"queue": "orders", "options": 7}, "options"),
        ({"queue": "orders", "options": {"leaseTime": 0}}, "options.leaseTime"),
        ({"queue": "orders", "options": {"leaseTime": "300"}}, "options.leaseTime"),
        ({"queue": "orders", "options": {"retryLimit": -1}}, "options.retryLimit"),
        ({"queue": "orders", "options": {"retentionEnabled": 1}}, "options.retentionEnabled"),
        ({"queue": "orders", "options": {"lease_time": 300}}, "options.lease_time"),
        ({"queue": "orders", "options": {"visibility": 300}}, "options.visibility"),
    ],
)
async def test_a_configuration_that_cannot_be_is_refused_by_field_and_makes_no_queue(
    client: Client, broker: Broker, body: dict[str, Any], field: str
) -> None:
    await client.refused("POST", "/api/v1/configure", field, json=body)

    assert await broker.queues.list() == []


async def test_a_deleted_queue_is_gone_with_its_messages(client: Client, broker: Broker) -> None:
    answer = await configure(client, "a/b c")
    await client.push("a/b c", 1)

    deleted = await client.delete("/api/v1/resources/queues/a%2Fb%20c")

    assert deleted == {
        "deleted": True,
        "queue": "a/b c",
        "existed": True,
        "id": answer["queueId"],
    }
    assert await broker.queues.list() == []


async def test_deleting_a_queue_that_is_not_there_is_no_error(client: Client) -> None:
    deleted = await client.delete("/api/v1/resources/queues/missing")

    assert deleted == {"deleted": True, "queue": "missing", "existed": False, "id": None}


async def test_clearing_takes_the_messages_and_leaves_the_groups(client: Client) -> None:
    await client.push("orders", 1, 2, partition="a")
    await client.push("orders", 3, partition="b")
    await client.register("orders", "billing")

    one = await client.delete("/api/v1/queues/orders/clear", partition="a")
    rest = await client.delete("/api/v1/queues/orders/clear")

    assert one == {"cleared": True, "count": 2, "queue": "orders", "partition": "a"}
    assert rest == {"cleared": True, "count": 1, "queue": "orders", "partition": "all"}
    assert len(await client.get("/api/v1/consumer-groups")) == 1


async def test_clearing_what_is_not_there_is_not_found(client: Client) -> None:
    await client.push("orders", 1)

    await client.delete("/api/v1/queues/missing/clear", status=404)
    await client.delete("/api/v1/queues/orders/clear", status=404, partition="missing")


@pytest.mark.parametrize(
    ("method", "path", "needs"),
    [
        ("POST", "/api/v1/configure", Permission.OPERATE),
        ("DELETE", "/api/v1/resources/queues/orders", Permission.ADMIN),
        ("DELETE", "/api/v1/queues/orders/clear", Permission.ADMIN),
    ],
)
async def test_changing_queues_needs_the_permission_and_the_queue(
    client: Client, broker: Broker, method: str, path: str, needs: Permission
) -> None:
    await client.push("orders", 1)
    body = {"json": {"queue": "orders", "options": {"leaseTime": 1}}} if method == "POST" else {}

    client.badge.principal = somebody(*set(Permission) - {needs})
    await client.ask(method, path, 403, **body)
    client.badge.principal = somebody(*Permission, queues=("payments",))
    await client.ask(method, path, 403, **body)

    assert (await broker.queues.stats("orders")).messages == 1
    assert (await broker.queues.get("orders")).options == QueueOptions()
