"""What the core refuses is refused under the name under which it was sent."""

from typing import Any
from uuid import UUID

import pytest

from skep.model.address import message_id
from tests.support.http.json_client import Client
from tests.support.http.memory_app import JSON

LEASE = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
NO_PARTITION = str(message_id(1, 1))
"""Well formed, and the id of something else."""
LONG = "x" * 256
NIL = str(UUID(int=0))


def item(queue: str = "orders", **more: Any) -> JSON:
    return {"queue": queue, "payload": 1, **more}


@pytest.mark.parametrize("laying_aside", [False, True])
@pytest.mark.parametrize(
    ("items", "field"),
    [
        ([item("")], "items[0].queue"),
        ([item(), item(transactionId="")], "items[1].transactionId"),
        ([item(), item(traceId=NIL)], "items[1].traceId"),
        ([item(partition="")], "items[0].partition"),
        ([item(), item(partition="\n")], "items[1].partition"),
        ([item(), item(LONG), item(LONG)], "items[1].queue"),
        ([item(), item("mails"), item(), item("mails", traceId=NIL)], "items[3].traceId"),
        ([item(), item("mails"), item(transactionId=LONG)], "items[2].transactionId"),
    ],
)
async def test_a_push_is_refused_by_item(
    client: Client, items: list[JSON], field: str, laying_aside: bool
) -> None:
    await client.post("/api/v1/system/maintenance", {"enabled": laying_aside})

    await client.refused("POST", "/api/v1/push", field, json={"items": items})


@pytest.mark.parametrize(
    ("path", "query", "field"),
    [
        ("/queue/orders", {"consumerGroup": "a\nb"}, "consumerGroup"),
        ("/queue/orders", {"leaseSeconds": 0}, "leaseSeconds"),
        ("/queue/orders", {"batch": 0}, "batch"),
        ("/queue/orders", {"partitions": 1000000}, "partitions"),
        ("/queue/orders/partition/%0A", {}, "partition"),
        ("/queue/%0A", {}, "queue"),
        ("", {"namespace": LONG}, "namespace"),
        ("", {}, "queue"),
    ],
)
async def test_a_pop_is_refused_by_parameter(
    client: Client, path: str, query: JSON, field: str
) -> None:
    await client.refused("GET", f"/api/v1/pop{path}", field, params=query)


async def test_an_ack_is_refused_by_field(client: Client) -> None:
    ack = {"transactionId": "t", "partitionId": NO_PARTITION, "leaseId": LEASE}

    await client.refused("POST", "/api/v1/ack", "partitionId", json=ack)


async def test_a_batch_of_acks_is_refused_by_ack(client: Client) -> None:
    await client.push("orders", 1)
    good = {"transactionId": "t", "partitionId": (await client.pop("orders"))["partitionId"]}
    bad = {"transactionId": "t", "partitionId": NO_PARTITION}

    await client.refused(
        "POST",
        "/api/v1/ack/batch",
        "acknowledgments[1].partitionId",
        json={"acknowledgments": [good, bad]},
    )


async def delivered(client: Client) -> JSON:
    """Two messages, in two partitions of one lease."""
    await client.push("orders", 1, partition="alice")
    await client.push("orders", 2, partition="bob")
    return await client.pop("orders", batch=2, partitions=2)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"offset": 5}, "verdicts[1].offset"),
        ({"offset": -1}, "verdicts[1].offset"),
        ({"partitionId": NO_PARTITION}, "verdicts[1].partitionId"),
    ],
)
async def test_settling_is_refused_by_verdict(client: Client, wrong: JSON, field: str) -> None:
    delivery = await delivered(client)
    first, second = (
        {"partitionId": message["partitionId"], "offset": message["offset"], "status": "completed"}
        for message in delivery["messages"]
    )

    await client.refused(
        "POST",
        f"/api/v1/lease/{delivery['leaseId']}/settle",
        field,
        json={"verdicts": [first, {**second, **wrong}]},
    )


def push(*items: JSON) -> JSON:
    return {"type": "push", "items": items}


@pytest.mark.parametrize(
    ("operation", "field"),
    [
        (push(item(), item(transactionId="")), "items[1].transactionId"),
        (push(item("mails"), item(), item("mails", partition="")), "items[2].partition"),
        (push(item(payload="?", encoding="base64")), "items[0].payload"),
        (push(item(""), item("")), "items[0].queue"),
        ({"type": "push", **item(traceId=NIL)}, "traceId"),
        ({"type": "push", **item(queue="")}, "queue"),
        ({"type": "push", **item(payload="?", encoding="base64")}, "payload"),
        ({"type": "ack", "transactionId": "t", "partitionId": NO_PARTITION}, "partitionId"),
        (
            {"type": "ack", "transactionId": "t", "partitionId": "{alice}", "leaseId": "x"},
            "leaseId",
        ),
        ({"type": "settle", "leaseId": "x"}, "leaseId"),
        ({"type": "settle", "leaseId": "{lease}", "verdicts": []}, "verdicts"),
        (
            {
                "type": "settle",
                "leaseId": "{lease}",
                "verdicts": [
                    {"partitionId": "{bob}", "offset": 0, "status": "completed"},
                    {"partitionId": "{alice}", "offset": 7, "status": "completed"},
                ],
            },
            "verdicts[1].offset",
        ),
        (
            {
                "type": "settle",
                "leaseId": "{lease}",
                "verdicts": [{"partitionId": NO_PARTITION, "offset": 0, "status": "completed"}],
            },
            "verdicts[0].partitionId",
        ),
        ({"type": "extend", "leaseId": "{lease}", "seconds": 0}, "seconds"),
        ({"type": "extend", "leaseId": "x"}, "leaseId"),
    ],
)
async def test_a_transaction_is_refused_by_operation(
    client: Client, operation: JSON, field: str
) -> None:
    delivery = await delivered(client)
    alice, bob = delivery["messages"]
    known = {
        "{lease}": delivery["leaseId"],
        "{alice}": alice["partitionId"],
        "{bob}": bob["partitionId"],
    }
    # Of each kind one stands before it: the broker takes them kind by kind, the caller does not.
    before = [
        {"type": "extend", "leaseId": delivery["leaseId"], "seconds": 60},
        {"type": "push", **item("invoices")},
    ]

    await client.refused(
        "POST",
        "/api/v1/transaction",
        f"operations[2].{field}",
        json={"operations": [*before, _filled(operation, known)]},
    )


async def test_a_message_that_a_transaction_acks_twice_is_named_by_its_second_ack(
    client: Client,
) -> None:
    delivery = await delivered(client)
    first, second = (
        {
            "type": "ack",
            "transactionId": message["transactionId"],
            "partitionId": message["partitionId"],
            "leaseId": delivery["leaseId"],
        }
        for message in delivery["messages"]
    )

    await client.refused(
        "POST",
        "/api/v1/transaction",
        "operations[3].transactionId",
        json={"operations": [first, push(item("invoices")), second, first]},
    )


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"idempotencyKey": LONG}, "idempotencyKey"),
        ({"requiredLeases": ["x"]}, "requiredLeases"),
    ],
)
async def test_a_transaction_is_refused_by_what_it_demands(
    client: Client, body: JSON, field: str
) -> None:
    operations = [push(item())]

    await client.refused(
        "POST", "/api/v1/transaction", field, json={"operations": operations, **body}
    )


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"queue": ""}, "queue"),
        ({"queue": "orders", "task": LONG}, "task"),
        ({"queue": "orders", "options": {"retryLimit": -1}}, "options.retryLimit"),
    ],
)
async def test_a_configuration_is_refused_by_field(client: Client, body: JSON, field: str) -> None:
    await client.refused("POST", "/api/v1/configure", field, json=body)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"push_items": [item(), item("mails", transactionId="")]}, "push_items[1].transactionId"),
        ({"push_items": [item(), item("")]}, "push_items[1].queue"),
        ({"state_ops": [{"type": "delete", "key": "\x00"}]}, "state_ops[0].key"),
    ],
)
async def test_a_cycle_is_refused_in_the_case_that_it_is_written_in(
    client: Client, body: JSON, field: str
) -> None:
    query = {"name": "sums", "source_queue": "orders", "config_hash": "1"}
    registered = await client.post("/streams/v1/queries", query)
    place = {"partition_id": (await delivered(client))["partitionId"]}

    await client.refused(
        "POST",
        "/streams/v1/cycle",
        field,
        json={"query_id": registered["query_id"], **place, **body},
    )


async def test_what_comes_with_an_error_is_in_camel_case(client: Client) -> None:
    problem = await client.post(f"/api/v1/lease/{LEASE}/extend", {}, 409)

    assert problem["leaseId"] == LEASE


def _filled(value: Any, known: JSON) -> Any:
    """The value, with what is known in place of its names."""
    if isinstance(value, dict):
        return {name: _filled(each, known) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(each, known) for each in value]
    return known.get(value, value) if isinstance(value, str) else value
