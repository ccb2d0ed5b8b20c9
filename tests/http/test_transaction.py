"""Transactions over HTTP, as Queen's clients send them and as ours do."""

from uuid import UUID

import pytest

from tests.support.http.memory_app import JSON, HttpCaller

LEASE = UUID("7c9e6679-7425-40de-944b-e07fc1f90ae7")


async def popped(hand: HttpCaller, *payloads: object) -> JSON:
    await hand.push("in", *payloads)
    found = await hand.pop("in", batch=100)
    assert found is not None
    return found


def ack(delivery: JSON, index: int = 0, **more: object) -> JSON:
    message = delivery["messages"][index]
    return {
        "type": "ack",
        "transactionId": message["transactionId"],
        "partitionId": message["partitionId"],
        "status": "completed",
        **more,
    }


def push(queue: str, *payloads: object) -> JSON:
    return {"type": "push", "items": [{"queue": queue, "payload": each} for each in payloads]}


async def transact(hand: HttpCaller, *operations: JSON, **more: object) -> JSON:
    body = {"operations": list(operations), **more}
    answer: JSON = await hand.post("/api/v1/transaction", body)
    return answer


async def test_pushes_and_acks_happen_together(hand: HttpCaller) -> None:
    delivery = await popped(hand, 1)

    answer = await transact(
        hand, push("out", "a", "b"), ack(delivery), requiredLeases=[delivery["leaseId"]]
    )

    assert answer["success"] is True
    assert [(r["index"], r["type"], r["success"]) for r in answer["results"]] == [
        (0, "push", True),
        (1, "push", True),
        (2, "ack", True),
    ]
    out = await hand.pop("out", batch=9)
    assert out is not None
    assert [m["data"] for m in out["messages"]] == ["a", "b"]


async def test_a_message_that_is_not_there_undoes_it_all(hand: HttpCaller) -> None:
    delivery = await popped(hand, 1)
    leases = [delivery["leaseId"]]

    answer = await transact(
        hand,
        push("out", 1),
        ack(delivery),
        ack(delivery, transactionId="none"),
        requiredLeases=leases,
    )

    assert answer["success"] is False
    assert "none" in answer["error"]
    assert await hand.pop("out") is None
    hand.clock.advance(301)
    assert await hand.pop("in") is not None


async def test_a_lost_lease_undoes_it_all(hand: HttpCaller) -> None:
    delivery = await popped(hand, 1)
    hand.clock.advance(301)

    answer = await transact(
        hand, push("out", 1), ack(delivery), requiredLeases=[delivery["leaseId"]]
    )

    assert (answer["success"], answer["problem"]["type"]) == (False, "LeaseLost")
    assert await hand.pop("out") is None


async def test_an_ack_under_no_lease_at_all_is_refused(hand: HttpCaller) -> None:
    delivery = await popped(hand, 1)

    answer = await transact(hand, ack(delivery))

    assert answer["success"] is False


async def test_an_ack_may_name_its_own_lease(hand: HttpCaller) -> None:
    delivery = await popped(hand, 1)

    answer = await transact(hand, ack(delivery, leaseId=delivery["leaseId"]))

    assert answer["success"] is True


async def test_a_push_in_place_of_items_is_one_item(hand: HttpCaller) -> None:
    answer = await transact(hand, {"type": "push", "queue": "out", "payload": 7})

    assert [result["offset"] for result in answer["results"]] == [0]


async def test_an_id_that_is_known_is_a_success_that_says_so(hand: HttpCaller) -> None:
    await hand.push("out", 1, transactionId="t")
    item = {"queue": "out", "payload": 1, "transactionId": "t"}

    answer = await transact(hand, {"type": "push", "items": [item]})

    assert answer["results"][0]["status"] == "duplicate"


async def test_what_failed_beside_what_was_completed_is_dead(hand: HttpCaller) -> None:
    delivery = await popped(hand, 1, 2)

    answer = await transact(
        hand,
        ack(delivery, 0),
        ack(delivery, 1, status="failed", error="no"),
        requiredLeases=[delivery["leaseId"]],
    )

    assert [result["dlq"] for result in answer["results"]] == [False, True]


async def test_a_lease_is_settled_and_another_extended_in_one(hand: HttpCaller) -> None:
    delivery = await popped(hand, 1, 2)
    await hand.push("more", 3)
    other = await hand.pop("more")
    assert other is not None

    answer = await transact(
        hand,
        {"type": "settle", "leaseId": delivery["leaseId"]},
        {"type": "extend", "leaseId": other["leaseId"], "seconds": 1000},
    )

    assert answer["results"][0]["settlement"] == {
        "completed": 2,
        "givenUp": [],
        "retryAt": None,
        "released": True,
    }
    hand.clock.advance(999)
    assert await hand.pop("more") is None


async def test_a_repetition_with_its_key_gets_the_first_answer(hand: HttpCaller) -> None:
    delivery = await popped(hand, 1)
    operations = [push("out", 1), ack(delivery, leaseId=delivery["leaseId"])]

    first = await transact(hand, *operations, idempotencyKey="k")
    again = await transact(hand, *operations, idempotencyKey="k")

    assert "repeated" not in first
    assert again["repeated"] is True
    assert again["results"][0]["messageId"] == first["results"][0]["messageId"]


async def test_a_key_for_other_operations_is_refused(hand: HttpCaller) -> None:
    await transact(hand, push("out", 1), idempotencyKey="k")

    answer = await transact(hand, push("out", 2), idempotencyKey="k")

    assert (answer["success"], answer["problem"]["type"]) == (False, "KeyReused")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "operations"),
        ({"operations": []}, "operations"),
        ({"operations": [{"type": "dance"}]}, "operations[0].type"),
        ({"operations": [{"type": "push"}]}, "operations[0].items"),
        ({"operations": [{"type": "ack", "transactionId": "t"}]}, "operations[0].partitionId"),
        (
            {"operations": [{"type": "push", "queue": "q"}], "requiredLeases": ["x"]},
            "requiredLeases",
        ),
        (
            {"operations": [{"type": "extend", "leaseId": str(LEASE), "seconds": -1}]},
            "operations[0].seconds",
        ),
    ],
)
async def test_a_bad_transaction_is_refused_by_the_name_of_its_field(
    hand: HttpCaller, body: JSON, field: str
) -> None:
    refused = await hand.post("/api/v1/transaction", body, expect=400)

    assert refused["field"] == field
    assert await hand.broker.queues.list() == []


async def test_all_pushes_of_a_transaction_have_a_limit_together(hand: HttpCaller) -> None:
    items = [{"queue": "orders"}] * 5001
    operations = [{"type": "push", "items": items}, {"type": "push", "items": items}]

    problem = await hand.post("/api/v1/transaction", {"operations": operations}, expect=400)

    assert problem["error"] == "operations: must push at most 10000 messages"
