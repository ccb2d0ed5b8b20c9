"""Traces over HTTP."""

from typing import Any
from uuid import UUID

import pytest

from skep.http.auth.principal import Permission
from skep.model.address import message_id, partition_id
from skep.testing.clock import ManualClock
from tests.support.http.json_client import Client, at, somebody

TRACES = "/api/v1/traces"
TRACE_ID = "11111111-2222-4333-8444-555555555555"


async def record(
    client: Client, pushed: dict[str, Any], status: int = 201, **event: Any
) -> dict[str, Any]:
    body = {
        "transactionId": pushed["transaction_id"],
        "partitionId": pushed["partition_id"],
        "data": {"ms": 12},
        **event,
    }
    answer: dict[str, Any] = await client.post(TRACES, body, status)
    return answer


def place(pushed: dict[str, Any]) -> str:
    return f"{TRACES}/{pushed['partition_id']}/{pushed['transaction_id']}"


async def test_an_event_is_recorded_and_shown_with_its_message(
    client: Client, clock: ManualClock
) -> None:
    (pushed,) = await client.push("orders", 1, transactionId="t1")
    first = await record(client, pushed, eventType="received", consumerGroup="billing")
    clock.advance(1)
    second = await record(client, pushed, data="done", traceNames=["checkout", "eu"], workerId="w1")

    found = await client.get(place(pushed))

    assert (first["success"], first["traceId"] != second["traceId"]) == (True, True)
    assert found["traces"] == [
        {
            "id": first["traceId"],
            "event_type": "received",
            "data": {"ms": 12},
            "encoding": "json",
            "consumer_group": "billing",
            "worker_id": None,
            "created_at": at(clock, -1),
            "trace_names": [],
        },
        {
            "id": second["traceId"],
            "event_type": "info",
            "data": "done",
            "encoding": "json",
            "consumer_group": None,
            "worker_id": "w1",
            "created_at": at(clock),
            "trace_names": ["checkout", "eu"],
        },
    ]


async def test_events_that_carry_a_name_are_found_newest_first(client: Client) -> None:
    (order,) = await client.push("orders", {"n": 1}, partition="a")
    (payment,) = await client.push("payments", {"n": 2})
    await record(client, order, data=1, traceNames=["a/b c"])
    await record(client, payment, data=2, traceNames=["a/b c", "other"])
    await record(client, order, data=3, traceNames=["a/b c"])

    found = await client.get(f"{TRACES}/by-name/a%2Fb%20c", limit=2)
    rest = await client.get(f"{TRACES}/by-name/a%2Fb%20c", limit=2, before=found["next"])
    skipped = await client.get(f"{TRACES}/by-name/a%2Fb%20c", offset=1)

    assert [event["data"] for event in found["traces"]] == [3, 2]
    assert [event["data"] for event in rest["traces"]] == [1]
    assert [event["data"] for event in skipped["traces"]] == [2, 1]
    assert (found["total"], rest["next"]) == (3, None)
    assert found["pagination"] == {"limit": 2, "offset": 0, "total": 3}
    event = found["traces"][0]
    assert (event["queue_name"], event["partition_name"]) == ("orders", "a")
    assert (event["transaction_id"], event["partition_id"]) == (
        order["transaction_id"],
        order["partition_id"],
    )
    assert event["message_payload"] == {"n": 1}


async def test_names_are_listed_with_how_much_stands_behind_them(
    client: Client, clock: ManualClock
) -> None:
    one, two = await client.push("orders", 1, 2)
    await record(client, one, traceNames=["checkout"])
    await record(client, one, traceNames=["checkout", "eu"])
    clock.advance(5)
    await record(client, two, traceNames=["checkout"])

    found = await client.get(f"{TRACES}/names")
    second = await client.get(f"{TRACES}/names", limit=1, offset=1)

    assert found["trace_names"] == [
        {"trace_name": "checkout", "trace_count": 3, "message_count": 2, "last_seen": at(clock)},
        {"trace_name": "eu", "trace_count": 1, "message_count": 1, "last_seen": at(clock, -5)},
    ]
    assert [row["trace_name"] for row in second["trace_names"]] == ["eu"]
    assert (found["total"], second["total"]) == (2, 2)


async def test_messages_that_share_a_trace_id_are_found_across_queues(
    client: Client, clock: ManualClock
) -> None:
    await client.push("orders", 1, traceId=TRACE_ID)
    clock.advance(1)
    await client.push("payments", 2, traceId=TRACE_ID)
    await client.push("payments", 3)
    await client.settle(await client.pop("orders"), "completed")

    found = await client.get(f"{TRACES}/id/{TRACE_ID}")

    assert found["traceId"] == TRACE_ID
    assert [(m["queue"], m["payload"], m["status"]) for m in found["messages"]] == [
        ("orders", 1, "completed"),
        ("payments", 2, "pending"),
    ]
    assert (await client.get(f"{TRACES}/id/{UUID(int=1)}"))["messages"] == []
    await client.refused("GET", f"{TRACES}/id/x", "traceId")


async def test_traces_of_queues_that_the_caller_does_not_see_are_not_shown(
    client: Client,
) -> None:
    (order,) = await client.push("orders", 1, traceId=TRACE_ID)
    (payment,) = await client.push("payments", 2, traceId=TRACE_ID)
    await record(client, order, data=1, traceNames=["both", "mine"])
    await record(client, payment, data=2, traceNames=["both", "theirs"])
    client.badge.principal = somebody(*Permission, queues=("orders",))

    names = await client.get(f"{TRACES}/names")
    named = await client.get(f"{TRACES}/by-name/both")
    shared = await client.get(f"{TRACES}/id/{TRACE_ID}")

    assert [(r["trace_name"], r["trace_count"]) for r in names["trace_names"]] == [
        ("both", 1),
        ("mine", 1),
    ]
    assert ([event["data"] for event in named["traces"]], named["total"]) == ([1], 1)
    assert [message["queue"] for message in shared["messages"]] == ["orders"]
    await client.get(place(payment), status=403)
    await record(client, payment, status=403)


async def test_payloads_and_events_need_reading_and_names_do_not(client: Client) -> None:
    (pushed,) = await client.push("orders", 1)
    await record(client, pushed, traceNames=["checkout"])
    client.badge.principal = somebody(Permission.STATUS)

    await client.get(f"{TRACES}/names")
    await client.get(f"{TRACES}/by-name/checkout", status=403)
    await client.get(f"{TRACES}/id/{TRACE_ID}", status=403)
    await client.get(place(pushed), status=403)
    await record(client, pushed, status=403)


async def test_an_event_lives_as_long_as_its_message(client: Client) -> None:
    (pushed,) = await client.push("orders", 1)
    await record(client, pushed, traceNames=["checkout"])

    await client.delete("/api/v1/queues/orders/clear")

    await client.get(place(pushed), status=404)
    assert (await client.get(f"{TRACES}/names"))["total"] == 0


async def test_an_event_of_what_is_not_there_is_not_found(client: Client) -> None:
    (pushed,) = await client.push("orders", 1)

    await record(client, {**pushed, "transaction_id": "unknown"}, status=404)
    await record(client, {**pushed, "partition_id": str(partition_id(999))}, status=404)


@pytest.mark.parametrize(
    ("event", "field"),
    [
        ({"transactionId": None}, "transactionId"),
        ({"transactionId": "x" * 300}, "transactionId"),
        ({"partitionId": "x"}, "partitionId"),
        ({"partitionId": str(message_id(1, 1))}, "partitionId"),
        ({"eventType": ""}, "eventType"),
        ({"eventType": 7}, "eventType"),
        ({"traceNames": "checkout"}, "traceNames"),
        ({"traceNames": [""]}, "traceNames"),
        ({"traceNames": ["x"] * 21}, "traceNames"),
        ({"consumerGroup": ""}, "consumerGroup"),
        ({"workerId": 7}, "workerId"),
    ],
)
async def test_an_event_that_cannot_be_is_refused_by_field_and_not_recorded(
    client: Client, event: dict[str, Any], field: str
) -> None:
    (pushed,) = await client.push("orders", 1)
    body = {
        "transactionId": pushed["transaction_id"],
        "partitionId": pushed["partition_id"],
        "data": 1,
        **event,
    }

    await client.refused("POST", TRACES, field, json=body)

    assert (await client.get(place(pushed)))["traces"] == []


@pytest.mark.parametrize("missing", ["transactionId", "partitionId", "data"])
async def test_an_event_needs_a_message_and_data(client: Client, missing: str) -> None:
    body = {"transactionId": "t", "partitionId": str(partition_id(1)), "data": 1}
    del body[missing]

    await client.refused("POST", TRACES, missing, json=body)


@pytest.mark.parametrize("path", ["names", "by-name/x"])
@pytest.mark.parametrize(("query", "field"), [("limit=0", "limit"), ("offset=-1", "offset")])
async def test_a_page_that_cannot_be_is_refused(
    client: Client, path: str, query: str, field: str
) -> None:
    await client.refused("GET", f"{TRACES}/{path}?{query}", field)
