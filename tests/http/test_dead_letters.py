"""Dead letters over HTTP."""

from typing import Any

import pytest

from skep import Broker
from skep.http.auth.principal import Permission
from skep.testing.clock import ManualClock
from tests.support.http.json_client import Client, at, somebody

DLQ = "/api/v1/dlq"


async def bury(
    client: Client,
    *payloads: Any,
    queue: str = "orders",
    partition: str = "Default",
    group: str = "__QUEUE_MODE__",
    error: str = "broken",
) -> None:
    """Push messages and give them up at once."""
    await client.post("/api/v1/configure", {"queue": queue, "options": {"retryLimit": 0}})
    await client.push(queue, *payloads, partition=partition)
    popped = await client.pop(f"{queue}/partition/{partition}", batch=100, consumerGroup=group)
    await client.settle(popped, "failed", error)


async def data(client: Client, **query: Any) -> list[Any]:
    found = await client.get(DLQ, **query)
    return [message["data"] for message in found["messages"]]


async def numbers(client: Client, **query: Any) -> list[int]:
    found = await client.get(DLQ, **query)
    return [message["number"] for message in found["messages"]]


async def test_a_dead_letter_shows_what_failed_and_why(client: Client, clock: ManualClock) -> None:
    await client.post("/api/v1/configure", {"queue": "orders", "options": {"retryLimit": 0}})
    (pushed,) = await client.push("orders", {"total": 12}, transactionId="t1")
    clock.advance(3)
    popped = await client.pop("orders", consumerGroup="billing")
    await client.settle(popped, "failed", "no stock")

    found = await client.get(DLQ, queue="orders")

    (letter,) = found["messages"]
    assert letter == {
        "number": letter["number"],
        "id": pushed["message_id"],
        "transactionId": "t1",
        "partitionId": pushed["partition_id"],
        "queue": "orders",
        "partition": "Default",
        "offset": 0,
        "consumerGroup": "billing",
        "errorMessage": "no stock",
        "attempts": 1,
        "retryCount": 0,
        "data": {"total": 12},
        "encoding": "json",
        "traceId": None,
        "producerSub": None,
        "createdAt": at(clock, -3),
        "failedAt": at(clock),
    }
    assert (found["total"], found["next"]) == (1, None)
    assert found["pagination"] == {"limit": 100, "offset": 0, "total": 1}


async def test_dead_letters_of_all_queues_come_newest_first(client: Client) -> None:
    await bury(client, 1, queue="orders")
    await bury(client, 2, queue="payments")
    await bury(client, 3, queue="orders")

    assert await data(client) == [3, 2, 1]
    assert await data(client, queue="orders") == [3, 1]
    assert await data(client, limit=1, offset=1) == [2]


async def test_pages_follow_each_other_without_gaps_while_letters_come_and_go(
    client: Client,
) -> None:
    await bury(client, 1, 2, 3, 4, 5)

    first = await client.get(DLQ, limit=2)
    await bury(client, 6)
    second = await client.get(DLQ, limit=2, before=first["next"])
    third = await client.get(DLQ, limit=2, before=second["next"])

    shown = [[m["data"] for m in page["messages"]] for page in (first, second, third)]
    assert shown == [[5, 4], [3, 2], [1]]
    assert (first["total"], third["total"], third["next"]) == (5, 6, None)


async def test_dead_letters_are_filtered_by_group_partition_and_time(
    client: Client, clock: ManualClock
) -> None:
    await bury(client, 1, partition="a")
    clock.advance(10)
    await bury(client, 2, partition="b")
    await bury(client, 3, partition="c", group="billing")
    clock.advance(10)
    await bury(client, 4, queue="payments", partition="a")

    assert await data(client, partition="a") == [4, 1]
    assert await data(client, queue="orders", consumerGroup="billing") == [3]
    assert await data(client, from_=at(clock, -10), to=at(clock)) == [3, 2]
    found = await client.get(DLQ, from_=at(clock, -15), limit=1)
    assert found["total"] == 3


async def test_a_time_without_a_zone_is_in_utc(client: Client, clock: ManualClock) -> None:
    await bury(client, 1)

    assert await data(client, from_=at(clock).rstrip("Z")) == [1]
    assert await data(client, from_=at(clock, 1).rstrip("Z")) == []


async def test_payloads_and_error_texts_are_shown_only_to_readers(client: Client) -> None:
    await bury(client, "secret")
    (number,) = await numbers(client)
    client.badge.principal = somebody(Permission.STATUS)

    found = await client.get(DLQ)

    assert "data" not in found["messages"][0]
    assert found["messages"][0]["errorMessage"] is None
    await client.get(f"{DLQ}/orders/{number}", status=403)


async def test_only_letters_of_queues_that_the_caller_sees_are_listed(client: Client) -> None:
    await bury(client, 1, queue="orders")
    await bury(client, 2, queue="payments")
    client.badge.principal = somebody(Permission.STATUS, Permission.READ, queues=("pay*",))

    found = await client.get(DLQ)

    assert [message["data"] for message in found["messages"]] == [2]
    assert found["total"] == 1
    await client.get(DLQ, status=403, queue="orders")


async def test_one_dead_letter_is_found_by_its_number(client: Client) -> None:
    await bury(client, 1)
    (number,) = await numbers(client)

    letter = await client.get(f"{DLQ}/orders/{number}")

    assert (letter["number"], letter["data"]) == (number, 1)
    await client.get(f"{DLQ}/orders/{number + 1}", status=404)
    await client.get(f"{DLQ}/missing/{number}", status=404)
    await client.refused("GET", f"{DLQ}/orders/first", "number")
    await client.refused("GET", f"{DLQ}/orders/{2**63}", "number")


# Sending back and throwing away.


async def test_letters_are_sent_back_by_number(client: Client) -> None:
    await bury(client, 1, 2, 3)
    newest, _, oldest = await numbers(client)

    answer = await client.post(f"{DLQ}/orders/replay", {"numbers": [oldest, newest, oldest]})

    assert (answer["queue"], answer["replayed"]) == ("orders", 2)
    popped = await client.pop("orders", batch=9)
    assert [each["messageId"] for each in answer["messages"]] == [
        message["id"] for message in popped["messages"]
    ]
    assert [message["data"] for message in popped["messages"]] == [1, 3]
    assert await data(client) == [2]


async def test_letters_of_a_group_or_a_partition_are_sent_back(client: Client) -> None:
    await bury(client, 1, partition="a")
    await bury(client, 2, partition="b")
    await bury(client, 3, partition="c", group="billing")
    path = f"{DLQ}/orders/replay"

    assert (await client.post(path, {"partition": "a"}))["replayed"] == 1
    assert (await client.post(path, {"consumerGroup": "billing"}))["replayed"] == 1
    assert await data(client) == [2]
    assert (await client.post(path, {"all": True}))["replayed"] == 1
    assert (await client.post(path, {"all": True}))["replayed"] == 0


async def test_letters_are_thrown_away_by_number_filter_or_all(client: Client) -> None:
    await bury(client, 1, 2, 3, partition="a")
    await bury(client, 4, partition="b")
    await bury(client, 5, partition="c")
    first, second, *_ = reversed(await numbers(client))

    some = await client.delete(f"{DLQ}/orders", numbers=f"{first}, {second}")
    assert some == {"success": True, "queue": "orders", "deleted": 2}
    assert await data(client) == [5, 4, 3]
    assert (await client.delete(f"{DLQ}/orders", partition="b"))["deleted"] == 1
    assert (await client.delete(f"{DLQ}/orders", all="true"))["deleted"] == 2
    assert (await client.get(DLQ))["total"] == 0


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "numbers"),
        (None, "numbers"),
        ({"all": False}, "numbers"),
        ({"numbers": [1], "all": True}, "numbers"),
        ({"numbers": [1], "partition": "a"}, "numbers"),
        ({"numbers": ["1"]}, "numbers[0]"),
        ({"numbers": [-1]}, "numbers[0]"),
        ({"numbers": 1}, "numbers"),
        ({"consumerGroup": 7}, "consumerGroup"),
    ],
)
async def test_a_replay_that_does_not_say_which_is_refused(
    client: Client, body: Any, field: str
) -> None:
    await bury(client, 1)

    await client.refused("POST", f"{DLQ}/orders/replay", field, json=body)

    assert await data(client) == [1]


@pytest.mark.parametrize(
    "query", ["", "numbers=x", "numbers=1,-2", "numbers=1&all=true", f"numbers={2**64}"]
)
async def test_a_deletion_that_does_not_say_which_is_refused(client: Client, query: str) -> None:
    await bury(client, 1)

    await client.refused("DELETE", f"{DLQ}/orders?{query}", "numbers")

    assert await data(client) == [1]


async def test_if_one_of_several_is_not_there_nothing_happens(client: Client) -> None:
    await bury(client, 1)
    (number,) = await numbers(client)

    await client.post(f"{DLQ}/orders/replay", {"numbers": [number, number + 1]}, status=404)
    await client.delete(f"{DLQ}/orders", status=404, numbers=f"{number},{number + 1}")
    await client.post(f"{DLQ}/missing/replay", {"all": True}, status=404)
    await client.delete(f"{DLQ}/missing", status=404, all="true")

    assert await data(client) == [1]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("offset=-1", "offset"),
        ("before=-1", "before"),
        ("before=x", "before"),
        ("from=yesterday", "from"),
        ("to=2030-13-01T00:00:00Z", "to"),
    ],
)
async def test_a_query_that_cannot_be_is_refused_by_field(
    client: Client, query: str, field: str
) -> None:
    await client.refused("GET", f"{DLQ}?{query}", field)


async def test_letters_of_what_is_not_there_are_not_found(client: Client) -> None:
    await client.push("orders", 1)

    await client.get(DLQ, status=404, queue="missing")
    await client.get(DLQ, status=404, queue="orders", partition="missing")
    assert (await client.get(DLQ, partition="missing"))["total"] == 0


async def test_changing_dead_letters_needs_the_permission(client: Client, broker: Broker) -> None:
    await bury(client, 1)

    client.badge.principal = somebody(*set(Permission) - {Permission.OPERATE, Permission.ADMIN})
    await client.post(f"{DLQ}/orders/replay", {"all": True}, status=403)
    await client.delete(f"{DLQ}/orders", status=403, all="true")
    client.badge.principal = somebody(*Permission, queues=("payments",))
    await client.post(f"{DLQ}/orders/replay", {"all": True}, status=403)

    assert await broker.dead_letters.count("orders") == 1
