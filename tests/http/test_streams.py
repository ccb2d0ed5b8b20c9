"""Stream queries: a cycle is one change."""

from uuid import UUID

import pytest

from tests.support.http.memory_app import JSON, HttpCaller

LEASE = UUID("7c9e6679-7425-40de-944b-e07fc1f90ae7")

SEPARATOR = "\u001f"


async def register(hand: HttpCaller, *, expect: int = 200, **more: object) -> JSON:
    body = {"name": "sums", "source_queue": "in", "config_hash": "h1", "reset": False, **more}
    answer: JSON = await hand.post("/streams/v1/queries", body, expect=expect)
    return answer


async def source(hand: HttpCaller, *payloads: object) -> JSON:
    await hand.push("in", *payloads)
    found = await hand.pop("in", batch=100, consumerGroup="streams.q")
    assert found is not None
    return found


async def cycle(hand: HttpCaller, query: JSON, delivery: JSON, **more: object) -> JSON:
    body = {
        "query_id": query["query_id"],
        "partition_id": delivery["partitionId"],
        "consumer_group": "streams.q",
        "state_ops": [],
        "push_items": [],
        "ack": None,
        **more,
    }
    answer: JSON = await hand.post("/streams/v1/cycle", body)
    return answer


async def rows(hand: HttpCaller, query: JSON, delivery: JSON, **more: object) -> dict[str, object]:
    body = {
        "query_id": query["query_id"],
        "partition_id": delivery["partitionId"],
        "keys": [],
        **more,
    }
    answer = await hand.post("/streams/v1/state/get", body)
    return {row["key"]: row["value"] for row in answer["rows"]}


def upsert(key: str, value: object) -> JSON:
    return {"type": "upsert", "key": key, "value": value}


def ack(delivery: JSON, index: int = -1, status: str = "completed") -> JSON:
    message = delivery["messages"][index]
    return {
        "transactionId": message["transactionId"],
        "leaseId": message["leaseId"],
        "status": status,
        "count": len(delivery["messages"]),
    }


async def test_a_name_with_the_same_computation_is_the_same_query(hand: HttpCaller) -> None:
    first = await register(hand)

    again = await register(hand)

    assert (first["fresh"], again["fresh"]) == (True, False)
    assert again["query_id"] == first["query_id"]


async def test_a_name_with_another_computation_is_refused(hand: HttpCaller) -> None:
    await register(hand)

    refused = await register(hand, config_hash="h2", expect=409)

    assert refused["success"] is False
    assert "config_hash mismatch" in refused["error"]


async def test_a_reset_takes_the_new_computation_and_loses_the_state(hand: HttpCaller) -> None:
    query = await register(hand)
    delivery = await source(hand, 1)
    await cycle(hand, query, delivery, state_ops=[upsert("k", 1)])

    again = await register(hand, config_hash="h2", reset=True)

    assert (again["query_id"], again["reset"]) == (query["query_id"], True)
    assert await rows(hand, query, delivery) == {}


async def test_a_cycle_writes_state_pushes_and_acks_at_once(hand: HttpCaller) -> None:
    query = await register(hand)
    delivery = await source(hand, 1, 2, 3)

    answer = await cycle(
        hand,
        query,
        delivery,
        state_ops=[upsert("sum", {"n": 6})],
        push_items=[{"queue": "out", "partition": "Default", "payload": {"sum": 6}}],
        ack=ack(delivery),
    )

    assert (answer["success"], answer["queueName"], answer["state_ops_applied"]) == (True, "in", 1)
    assert answer["push_results"][0]["status"] == "queued"
    assert answer["ack_result"] == {
        "success": True,
        "count": 3,
        "lease_released": True,
        "dlq": False,
    }
    assert await rows(hand, query, delivery) == {"sum": {"n": 6}}
    assert await hand.pop("out") is not None
    hand.clock.advance(1000)
    assert await hand.pop("in", consumerGroup="streams.q") is None


async def test_a_cycle_under_a_lost_lease_changes_nothing(hand: HttpCaller) -> None:
    query = await register(hand)
    delivery = await source(hand, 1)
    hand.clock.advance(1000)

    answer = await cycle(
        hand,
        query,
        delivery,
        state_ops=[upsert("k", 1)],
        push_items=[{"queue": "out", "payload": 1}],
        ack=ack(delivery),
    )

    assert answer["success"] is False
    assert await rows(hand, query, delivery) == {}
    assert await hand.pop("out") is None


async def test_a_flush_needs_no_lease(hand: HttpCaller) -> None:
    query = await register(hand)
    delivery = await source(hand, 1)
    hand.clock.advance(1000)

    answer = await cycle(hand, query, delivery, state_ops=[upsert("k", 1)])

    assert (answer["success"], answer["ack_result"]) == (True, None)


async def test_what_lies_behind_the_ack_is_given_back(hand: HttpCaller) -> None:
    query = await register(hand)
    delivery = await source(hand, 1, 2, 3)

    await cycle(hand, query, delivery, ack=ack(delivery, 1))

    again = await hand.pop("in", batch=9, consumerGroup="streams.q")
    assert again is not None
    assert [m["data"] for m in again["messages"]] == [3]


async def test_what_lies_behind_the_ack_is_kept_if_the_lease_is(hand: HttpCaller) -> None:
    query = await register(hand)
    delivery = await source(hand, 1, 2, 3)

    await cycle(hand, query, delivery, ack=ack(delivery, 1), release_lease=False)

    assert await hand.pop("in", batch=9, consumerGroup="streams.q") is None
    hand.clock.advance(301)
    again = await hand.pop("in", batch=9, consumerGroup="streams.q")
    assert again is not None
    assert [m["data"] for m in again["messages"]] == [3]


async def test_a_deleted_key_is_gone(hand: HttpCaller) -> None:
    query = await register(hand)
    delivery = await source(hand, 1)
    await cycle(hand, query, delivery, state_ops=[upsert("k", 1), upsert("l", 2)])

    await cycle(hand, query, delivery, state_ops=[{"type": "delete", "key": "k"}])

    assert await rows(hand, query, delivery) == {"l": 2}


async def test_state_is_found_by_key_by_prefix_and_by_the_end_of_its_window(
    hand: HttpCaller,
) -> None:
    query = await register(hand)
    delivery = await source(hand, 1)
    names = [f"a%{SEPARATOR}1", f"a%{SEPARATOR}2", f"ab{SEPARATOR}1"]
    ops = [upsert(name, {"windowEnd": n * 1000}) for n, name in enumerate(names)]
    await cycle(hand, query, delivery, state_ops=[*ops, upsert("plain", 5)])

    assert list(await rows(hand, query, delivery, keys=[names[2], names[0]])) == [
        names[0],
        names[2],
    ]
    assert list(await rows(hand, query, delivery, key_prefix="a%")) == names[:2]
    assert list(await rows(hand, query, delivery, ripe_at_or_before=1000)) == names[:2]


async def test_queries_and_partitions_do_not_see_each_others_state(hand: HttpCaller) -> None:
    query, other = await register(hand), await register(hand, name="other")
    delivery = await source(hand, 1)
    await cycle(hand, query, delivery, state_ops=[upsert("k", 1)])

    assert await rows(hand, other, delivery) == {}


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("queries", {}, "name"),
        ("queries", {"name": "n"}, "source_queue"),
        ("queries", {"name": "n", "source_queue": "q"}, "config_hash"),
        ("cycle", {}, "query_id"),
        ("cycle", {"query_id": str(LEASE)}, "partition_id"),
        ("state/get", {"query_id": "x"}, "query_id"),
    ],
)
async def test_a_bad_call_is_refused_by_the_name_of_its_field(
    hand: HttpCaller, path: str, body: JSON, field: str
) -> None:
    refused = await hand.post(f"/streams/v1/{path}", body, expect=400)

    assert refused["field"] == field


async def test_a_key_with_a_zero_byte_is_refused_and_nothing_is_written(hand: HttpCaller) -> None:
    query = await register(hand)
    delivery = await source(hand, 1)
    body = {
        "query_id": query["query_id"],
        "partition_id": delivery["partitionId"],
        "state_ops": [upsert("good", 1), upsert("b\u0000d", 2)],
    }

    await hand.post("/streams/v1/cycle", body, expect=400)

    assert await rows(hand, query, delivery) == {}
