"""Looking at messages, and doing something about one of them."""

from typing import Any

import pytest

from skep import Broker
from skep.http.auth.principal import Permission
from skep.model.address import message_id, partition_id
from skep.testing.clock import ManualClock
from tests.support.http.json_client import Client, at, somebody

MESSAGES = "/api/v1/messages"


async def payloads(client: Client, **query: Any) -> list[Any]:
    found = await client.get(MESSAGES, **query)
    return [message["payload"] for message in found["messages"]]


def place(pushed: dict[str, Any]) -> str:
    return f"{MESSAGES}/{pushed['partition_id']}/{pushed['transaction_id']}"


async def bury(client: Client, group: str = "__QUEUE_MODE__") -> dict[str, Any]:
    """A message that was given up."""
    await client.post("/api/v1/configure", {"queue": "orders", "options": {"retryLimit": 0}})
    (pushed,) = await client.push("orders", "bad", transactionId="t1")
    await client.settle(await client.pop("orders", consumerGroup=group), "failed", "no stock")
    return pushed


async def test_a_message_is_listed_with_what_became_of_it(
    client: Client, clock: ManualClock
) -> None:
    (pushed,) = await client.push("shop.orders", {"n": 1}, partition="a", transactionId="t1")
    clock.advance(2)
    await client.pop("shop.orders")
    await client.settle(await client.pop("shop.orders", consumerGroup="billing"), "completed")
    await client.register("shop.orders", "stock")

    found = await client.get(MESSAGES)

    assert found["messages"] == [
        {
            "id": pushed["message_id"],
            "transactionId": "t1",
            "partitionId": pushed["partition_id"],
            "queuePath": "shop.orders/a",
            "queue": "shop.orders",
            "partition": "a",
            "offset": 0,
            "namespace": "shop",
            "task": "orders",
            "status": "processing",
            "queueStatus": "processing",
            "busStatus": {"consumedBy": 1, "totalGroups": 2},
            "traceId": None,
            "producerSub": None,
            "queuePriority": 0,
            "createdAt": at(clock, -2),
            "leaseExpiresAt": at(clock, 300),
            "isEncrypted": False,
            "payload": {"n": 1},
            "encoding": "json",
        }
    ]
    assert found["mode"] == {"hasQueueMode": True, "busGroupsCount": 2, "type": "hybrid"}
    assert found["next"] is None


async def test_the_mode_says_how_queues_are_read(client: Client) -> None:
    async def mode() -> str:
        return str((await client.get(MESSAGES))["mode"]["type"])

    await client.push("orders", 1)
    assert await mode() == "none"
    await client.register("orders", "billing")
    assert await mode() == "bus"
    await client.register("orders", "__QUEUE_MODE__")
    assert await mode() == "hybrid"
    await client.delete("/api/v1/consumer-groups/billing")
    assert await mode() == "queue"


async def test_messages_are_filtered_by_queue_partition_label_and_status(client: Client) -> None:
    await client.push("shop.orders", 1, 2, partition="a")
    await client.push("shop.orders", 3, partition="b")
    await client.push("ops.orders", 4, partition="a")
    await client.settle(await client.pop("shop.orders/partition/a", batch=1), "completed")
    await client.pop("shop.orders/partition/a", batch=1)

    assert await payloads(client) == [4, 3, 2, 1]
    assert await payloads(client, queue="shop.orders") == [3, 2, 1]
    assert await payloads(client, queue="shop.orders", partition="b") == [3]
    assert await payloads(client, partition="a") == [4, 2, 1]
    assert await payloads(client, namespace="shop") == [3, 2, 1]
    assert await payloads(client, ns="ops") == [4]
    assert await payloads(client, task="orders", status_="pending") == [4, 3]
    assert await payloads(client, status_="completed") == [1]
    assert await payloads(client, status_="processing") == [2]
    assert await payloads(client, status_="dead_letter") == []
    assert await payloads(client, queue="shop.orders", namespace="ops") == []


async def test_only_the_last_hour_is_listed_unless_more_is_asked_for(
    client: Client, clock: ManualClock
) -> None:
    await client.push("orders", 1)
    clock.advance(3500)
    await client.push("orders", 2)
    clock.advance(200)

    assert await payloads(client) == [2]
    assert await payloads(client, from_=at(clock, -3700)) == [2, 1]
    assert await payloads(client, from_=at(clock, -3700), to=at(clock, -200)) == [1]


async def test_pages_follow_each_other(client: Client) -> None:
    await client.push("orders", 1, 2)
    await client.push("payments", 3, 4, 5)

    first = await client.get(MESSAGES, limit=3)
    second = await client.get(MESSAGES, limit=3, before=first["next"])

    assert [m["payload"] for m in first["messages"]] == [5, 4, 3]
    assert [m["payload"] for m in second["messages"]] == [2, 1]
    assert second["next"] is None
    assert await payloads(client, limit=2, offset=2) == [3, 2]


async def test_a_list_has_payloads_only_for_who_may_read_them(client: Client) -> None:
    (pushed,) = await client.push("orders", "secret")
    client.badge.principal = somebody(Permission.STATUS)

    found = await client.get(MESSAGES)

    assert "payload" not in found["messages"][0]
    assert found["messages"][0]["status"] == "pending"
    await client.get(place(pushed), status=403)


async def test_only_messages_of_queues_that_the_caller_sees_are_listed(client: Client) -> None:
    (pushed,) = await client.push("orders", 1)
    await client.push("payments", 2)
    client.badge.principal = somebody(*Permission, queues=("payments",))

    assert await payloads(client) == [2]
    await client.get(MESSAGES, status=403, queue="orders")
    for method in ("GET", "DELETE"):
        await client.ask(method, place(pushed), 403)
    for action in ("retry", "dlq"):
        await client.post(f"{place(pushed)}/{action}", status=403)


async def test_one_message_is_shown_with_all_that_is_known_of_it(
    client: Client, clock: ManualClock
) -> None:
    (pushed,) = await client.push("orders", [1, 2], transactionId="a/b c")
    await client.settle(await client.pop("orders", consumerGroup="billing"), "completed")
    await client.pop("orders", consumerGroup="stock")

    found = await client.get(f"{MESSAGES}/{pushed['partition_id']}/a%2Fb%20c")

    assert (found["id"], found["payload"]) == (pushed["message_id"], [1, 2])
    assert (found["status"], found["retryCount"], found["errorMessage"]) == ("processing", 0, None)
    assert found["queueConfig"] == {
        "leaseTime": 300,
        "retryLimit": 3,
        "retryDelay": 1000,
        "ttl": 3600,
        "priority": 0,
    }
    assert found["mode"] == {
        "hasQueueMode": False,
        "busGroupsCount": 2,
        "type": "bus",
        "consumedByGroups": 1,
    }
    assert found["consumerGroups"] == [
        {"name": "billing", "consumed": True, "status": "completed", "leaseExpiresAt": None},
        {
            "name": "stock",
            "consumed": False,
            "status": "processing",
            "leaseExpiresAt": at(clock, 300),
        },
    ]


async def test_a_message_without_an_id_of_its_own_is_found_by_the_one_it_was_given(
    client: Client,
) -> None:
    (pushed,) = await client.push("orders", None)

    assert (await client.get(place(pushed)))["payload"] is None


async def test_a_message_that_was_given_up_says_why(client: Client) -> None:
    pushed = await bury(client)

    found = await client.get(place(pushed))

    assert (found["status"], found["errorMessage"]) == ("dead_letter", "no stock")
    assert await payloads(client, status_="dead_letter") == ["bad"]


async def test_what_is_not_there_is_not_found(client: Client) -> None:
    (pushed,) = await client.push("orders", 1)
    here, nowhere = pushed["partition_id"], partition_id(999)

    for path in (f"{MESSAGES}/{here}/unknown", f"{MESSAGES}/{nowhere}/t1"):
        await client.get(path, status=404)
        await client.delete(path, status=404)
        await client.post(f"{path}/retry", status=404)
        await client.post(f"{path}/dlq", status=404)
    await client.get(MESSAGES, status=404, queue="missing")
    await client.get(MESSAGES, status=404, queue="orders", partition="missing")


@pytest.mark.parametrize("identifier", ["x", str(message_id(1, 1)), "00000000-" + "0" * 27])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_what_is_no_id_of_a_partition_is_refused(
    client: Client, method: str, identifier: str
) -> None:
    await client.refused(method, f"{MESSAGES}/{identifier}/t1", "partitionId")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("status=failed", "status"),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=ten", "limit"),
        ("offset=-1", "offset"),
        ("from=1.1.2030", "from"),
        ("to=never", "to"),
        ("before=1,2", "before"),
    ],
)
async def test_a_query_that_cannot_be_is_refused_by_field(
    client: Client, query: str, field: str
) -> None:
    await client.push("orders", 1)

    await client.refused("GET", f"{MESSAGES}?{query}", field)


# Doing something about it.


async def test_a_deleted_message_is_gone(client: Client) -> None:
    first, second = await client.push("orders", 1, 2)

    answer = await client.delete(place(first))

    assert answer["success"] is True
    assert answer["transactionId"] == first["transaction_id"]
    assert await payloads(client) == [2]
    await client.delete(place(first), status=404)
    assert (await client.pop("orders", batch=9))["messages"][0]["id"] == second["message_id"]


async def test_a_retry_sends_the_dead_letter_back(client: Client) -> None:
    pushed = await bury(client, "billing")

    answer = await client.post(f"{place(pushed)}/retry")

    assert (answer["retried"], answer["consumerGroup"]) == (True, "billing")
    popped = await client.pop("orders", consumerGroup="billing")
    (message,) = popped["messages"]
    assert (message["transactionId"], message["data"]) == ("t1", "bad")
    assert (message["id"], message["offset"]) == (answer["messageId"], 1)
    assert (await client.get("/api/v1/dlq"))["total"] == 0


async def test_a_retry_works_when_only_the_dead_letter_is_left(client: Client) -> None:
    pushed = await bury(client)
    await client.delete("/api/v1/queues/orders/clear")

    await client.post(f"{place(pushed)}/retry")

    assert (await client.pop("orders"))["messages"][0]["data"] == "bad"


async def test_a_retry_takes_the_letter_of_the_group_that_is_named(client: Client) -> None:
    pushed = await bury(client, "billing")
    await client.settle(await client.pop("orders", consumerGroup="stock"), "failed", "other")

    answer = await client.post(f"{place(pushed)}/retry", {"consumerGroup": "billing"})

    assert answer["consumerGroup"] == "billing"
    letters = await client.get("/api/v1/dlq")
    assert [letter["consumerGroup"] for letter in letters["messages"]] == ["stock"]


async def test_a_retry_of_what_is_no_dead_letter_is_a_conflict(client: Client) -> None:
    (pushed,) = await client.push("orders", 1)

    problem = await client.post(f"{place(pushed)}/retry", status=409)

    assert "is not a dead letter" in problem["error"]
    assert await payloads(client) == [1]


async def test_a_message_is_moved_to_the_dead_letters_before_it_is_delivered(
    client: Client,
) -> None:
    first, _ = await client.push("orders", 1, 2)
    await client.register("orders", "billing")

    answer = await client.post(f"{place(first)}/dlq", {"error": "known to be bad"})

    assert (answer["movedToDLQ"], answer["consumerGroups"]) == (True, ["billing"])
    (letter,) = (await client.get("/api/v1/dlq"))["messages"]
    assert (letter["id"], letter["errorMessage"]) == (first["message_id"], "known to be bad")
    popped = await client.pop("orders", consumerGroup="billing", batch=9)
    assert [message["data"] for message in popped["messages"]] == [2]


async def test_a_message_is_not_taken_from_a_consumer_that_holds_it(client: Client) -> None:
    (pushed,) = await client.push("orders", 1)
    await client.pop("orders")

    problem = await client.post(f"{place(pushed)}/dlq", status=409)

    assert "holds the message" in problem["error"]
    assert (await client.get("/api/v1/dlq"))["total"] == 0


async def test_a_message_that_everybody_has_read_cannot_be_moved(client: Client) -> None:
    (pushed,) = await client.push("orders", 1)
    await client.settle(await client.pop("orders"), "completed")

    await client.post(f"{place(pushed)}/dlq", status=409)
    await client.post(f"{place(pushed)}/dlq", {"consumerGroup": "unknown"}, status=404)
    await client.refused("POST", f"{place(pushed)}/dlq", "error", json={"error": 7})


async def test_changing_messages_needs_the_permission(client: Client, broker: Broker) -> None:
    (pushed,) = await client.push("orders", 1)
    await client.register("orders", "billing")
    client.badge.principal = somebody(Permission.STATUS, Permission.READ, Permission.POP)

    await client.delete(place(pushed), status=403)
    await client.post(f"{place(pushed)}/retry", status=403)
    await client.post(f"{place(pushed)}/dlq", status=403)

    assert (await broker.queues.stats("orders")).dead_letters == 0
    assert await payloads(client) == [1]


async def test_a_message_can_be_named_by_its_own_id_although_it_has_another(
    client: Client,
) -> None:
    (pushed,) = await client.push("orders", 1, transactionId="t1")
    (other,) = await client.push("orders", 2, partition="other")

    found = await client.get(f"{MESSAGES}/{pushed['partition_id']}/{pushed['message_id']}")

    assert (found["transactionId"], found["payload"]) == ("t1", 1)
    await client.get(f"{MESSAGES}/{pushed['partition_id']}/{other['message_id']}", status=404)
