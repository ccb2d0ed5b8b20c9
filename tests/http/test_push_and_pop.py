"""Pushing and popping over HTTP, as Queen's clients do it."""

import asyncio
from uuid import UUID

import pytest

from skep import Broker, Draft
from tests.support.http.authenticated_app import knock
from tests.support.http.memory_app import HttpCaller, acks_of
from tests.support.in_process_server import make_app

TRACE = "0190a6f0-0000-7000-8000-000000000001"


async def test_a_push_answers_where_each_message_is(hand: HttpCaller) -> None:
    first, second = await hand.push("orders", {"n": 1}, {"n": 2})

    assert (first["index"], first["status"], first["offset"]) == (0, "queued", 0)
    assert (second["index"], second["status"], second["offset"]) == (1, "queued", 1)
    assert first["queueName"] == "orders"
    assert UUID(first["message_id"]) != UUID(second["message_id"])
    assert first["partition_id"] == second["partition_id"]


async def test_an_empty_push_pushes_nothing(hand: HttpCaller) -> None:
    assert await hand.post("/api/v1/push", {"items": []}, expect=201) == []


async def test_a_second_push_of_a_transaction_id_names_the_first(hand: HttpCaller) -> None:
    (first,) = await hand.push("orders", 1, transactionId="t")

    (again,) = await hand.push("orders", 2, transactionId="t")

    assert (again["status"], again["message_id"]) == ("duplicate", first["message_id"])
    assert again["transaction_id"] == "t"


async def test_a_push_to_several_queues_answers_in_the_order_given(hand: HttpCaller) -> None:
    items = [{"queue": name, "payload": n} for n, name in enumerate(["a", "b", "a"])]

    answers = await hand.post("/api/v1/push", {"items": items}, expect=201)

    assert [(a["index"], a["queueName"], a["offset"]) for a in answers] == [
        (0, "a", 0),
        (1, "b", 0),
        (2, "a", 1),
    ]


async def test_a_push_to_several_queues_is_whole_or_not_at_all(hand: HttpCaller) -> None:
    items = [{"queue": "good", "payload": 1}, {"queue": "", "payload": 2}]

    await hand.post("/api/v1/push", {"items": items}, expect=400)

    assert await hand.broker.queues.list() == []


@pytest.mark.parametrize(
    "payload",
    [
        b"null",
        b"{}",
        b'{"b":1,"a":1.10,"b":2}',
        b"9007199254740993123456789",
        b"1e400",
        b'"\\u0000"',
        '"\u00e9\u2028"'.encode(),
        b'  {"spaces" : [ ] }'.strip(),
    ],
)
async def test_a_payload_comes_back_byte_for_byte(hand: HttpCaller, payload: bytes) -> None:
    body = b'{"items":[{"queue":"orders","payload":%s}]}' % payload
    await hand.post("/api/v1/push", body, expect=201)

    answer = await hand.http.get("/api/v1/pop/queue/orders")

    assert b'"data":' + payload + b"," in answer.content


async def test_a_payload_that_is_missing_is_an_empty_object(hand: HttpCaller) -> None:
    await hand.post("/api/v1/push", {"items": [{"queue": "orders"}]}, expect=201)

    popped = await hand.pop("orders")

    assert popped is not None
    assert popped["messages"][0]["data"] == {}


async def test_bytes_that_are_not_json_travel_in_base64(hand: HttpCaller) -> None:
    item = {"queue": "orders", "payload": "/wA=", "encoding": "base64"}
    await hand.post("/api/v1/push", {"items": [item]}, expect=201)

    popped = await hand.pop("orders")

    assert popped is not None
    assert (popped["messages"][0]["data"], popped["messages"][0]["encoding"]) == ("/wA=", "base64")


async def test_a_pop_tells_all_about_its_messages(hand: HttpCaller) -> None:
    (pushed,) = await hand.push(
        "orders", {"n": 1}, partition="alice", transactionId="t", traceId=TRACE
    )

    popped = await hand.pop("orders", batch=10, consumerGroup="billing")

    assert popped is not None
    assert popped["success"] is True
    assert (popped["queue"], popped["partition"]) == ("orders", "alice")
    assert (popped["consumerGroup"], popped["partitionsClaimed"]) == ("billing", 1)
    (message,) = popped["messages"]
    assert message == {
        "id": pushed["message_id"],
        "transactionId": "t",
        "traceId": TRACE,
        "data": {"n": 1},
        "encoding": "json",
        "producerSub": None,
        "createdAt": "2030-01-01T12:00:00Z",
        "queue": "orders",
        "partition": "alice",
        "partitionId": pushed["partition_id"],
        "offset": 0,
        "deliveryAttempt": 1,
        "retryCount": 0,
        "leaseId": popped["leaseId"],
        "consumerGroup": "billing",
    }


async def test_a_pop_that_finds_nothing_answers_204(hand: HttpCaller) -> None:
    assert await hand.pop("nowhere") is None


async def test_a_group_is_queue_mode_where_none_is_named(hand: HttpCaller) -> None:
    await hand.push("orders", 1)

    popped = await hand.pop("orders")

    assert popped is not None
    assert popped["consumerGroup"] == "__QUEUE_MODE__"


async def test_auto_ack_gives_no_lease_and_delivers_once(hand: HttpCaller) -> None:
    await hand.push("orders", 1)

    popped = await hand.pop("orders", autoAck="true")

    assert popped is not None
    assert popped["messages"][0]["leaseId"] == ""
    hand.clock.advance(1000)
    assert await hand.pop("orders") is None


async def test_names_may_hold_what_a_path_may_not(hand: HttpCaller) -> None:
    name = "a/b %?#\u00e9"
    await hand.push(name, 1, partition="x/y")

    popped = await hand.get("/api/v1/pop/queue/a%2Fb%20%25%3F%23%C3%A9/partition/x%2Fy")

    assert (popped["queue"], popped["partition"]) == (name, "x/y")


async def test_a_pop_by_namespace_or_task_finds_their_queues(hand: HttpCaller) -> None:
    await hand.broker.queues.configure("bills", namespace="money", task="send", priority=5)
    await hand.push("bills", 1)
    await hand.push("other", 2)

    popped = await hand.get("/api/v1/pop", namespace="money", task="send")

    assert popped["queue"] == "bills"
    await hand.get("/api/v1/pop", namespace="nobody", expect=204)


async def test_several_partitions_come_under_one_lease(hand: HttpCaller) -> None:
    for name in "abc":
        await hand.push("orders", name, partition=name)

    popped = await hand.pop("orders", batch=10, partitions=2)

    assert popped is not None
    assert popped["partitionsClaimed"] == 2
    assert {m["leaseId"] for m in popped["messages"]} == {popped["leaseId"]}


@pytest.mark.parametrize("asked", [{"subscriptionMode": "new"}, {"subscriptionFrom": "now"}])
async def test_a_group_may_start_with_what_is_new(hand: HttpCaller, asked: dict[str, str]) -> None:
    await hand.push("orders", "old")
    assert await hand.pop("orders", consumerGroup="g", **asked) is None

    await hand.push("orders", "new")

    popped = await hand.pop("orders", consumerGroup="g")
    assert popped is not None
    assert popped["messages"][0]["data"] == "new"


async def test_a_group_may_start_at_a_time(hand: HttpCaller) -> None:
    await hand.push("orders", "old")
    hand.clock.advance(60)
    await hand.push("orders", "new")

    popped = await hand.pop(
        "orders", consumerGroup="g", subscriptionFrom="2030-01-01T12:00:30Z", batch=9
    )

    assert popped is not None
    assert [m["data"] for m in popped["messages"]] == ["new"]


async def test_a_long_poll_is_answered_when_a_message_comes(hand: HttpCaller) -> None:
    waiting = asyncio.ensure_future(hand.pop("orders", wait="true", timeout=30000))
    for _ in range(20):
        await asyncio.sleep(0)

    await hand.push("orders", 1)

    popped = await waiting
    assert popped is not None
    assert popped["messages"][0]["data"] == 1


async def test_a_long_poll_ends_empty_at_its_time(hand: HttpCaller) -> None:
    waiting = asyncio.ensure_future(hand.pop("orders", wait="true", timeout=2000))
    for _ in range(20):
        await asyncio.sleep(0)

    hand.clock.advance(2)

    assert await waiting is None


async def test_a_failed_batch_comes_again_and_counts(hand: HttpCaller) -> None:
    await hand.push("orders", 1)
    popped = await hand.pop("orders")
    assert popped is not None
    await hand.post("/api/v1/ack/batch", {"acknowledgments": acks_of(popped, "failed")})
    hand.clock.advance(10)

    again = await hand.pop("orders")

    assert again is not None
    assert (again["messages"][0]["deliveryAttempt"], again["messages"][0]["retryCount"]) == (2, 1)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"batch": "x"}, "batch"),
        ({"batch": "0"}, "batch"),
        ({"batch": "-1"}, "batch"),
        ({"batch": "99999999999999999999"}, "batch"),
        ({"partitions": "0"}, "partitions"),
        ({"wait": "perhaps"}, "wait"),
        ({"timeout": "-5", "wait": "true"}, "timeout"),
        ({"subscriptionFrom": "yesterday"}, "subscriptionFrom"),
        ({"leaseSeconds": "0"}, "leaseSeconds"),
        ({"consumerGroup": "a\nb"}, "consumerGroup"),
    ],
)
async def test_a_bad_pop_is_refused_by_the_name_of_its_field(
    hand: HttpCaller, query: dict[str, str], field: str
) -> None:
    await hand.push("orders", 1)

    refused = await hand.get("/api/v1/pop/queue/orders", expect=400, **query)

    assert refused["field"] == field
    assert await hand.pop("orders") is not None


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "items"),
        (b"{}", "items"),
        (b"[]", "body"),
        (b'{"items":1}', "items"),
        (b'{"items":[{"payload":1}]}', "items[0].queue"),
        (b'{"items":[{"queue":1}]}', "items[0].queue"),
        (b'{"items":[{"queue":"q","partition":1}]}', "items[0].partition"),
        (b'{"items":[{"queue":"q","transactionId":5}]}', "items[0].transactionId"),
        (b'{"items":[{"queue":"q","traceId":"x"}]}', "items[0].traceId"),
        (b'{"items":[{"queue":"q","payload":NaN}]}', "body"),
        (b'{"items":[{"queue":"q","payload":"\xff"}]}', "body"),
        (b'{"items":[{"queue":"q","payload":"\\ud800"}]}', "body"),
        (b'\xef\xbb\xbf{"items":[]}', "body"),
        (
            b'{"items":[{"queue":"q","payload":' + b"[" * 200 + b"]" * 200 + b"}]}",
            "items[0].payload",
        ),
        (b'{"items":[{"queue":"q","payload":' + b"[" * 9000 + b"]" * 9000 + b"}]}", "body"),
        (b'{"items":[{"queue":"q","payload":"?","encoding":"base64"}]}', "items[0].payload"),
        (b'{"items":[{"queue":"q","payload":1,"encoding":"rot13"}]}', "items[0].encoding"),
        (b'{"items":[{"queue":"' + b"q" * 256 + b'"}]}', "items[0].queue"),
        (
            b'{"items":[{"queue":"q","transactionId":"' + b"t" * 256 + b'"}]}',
            "items[0].transactionId",
        ),
    ],
)
async def test_a_bad_push_is_refused_by_the_name_of_its_field(
    hand: HttpCaller, body: bytes, field: str
) -> None:
    refused = await hand.post("/api/v1/push", body, expect=400)

    assert refused["field"] == field
    assert refused["error"].startswith(refused["field"])
    assert await hand.broker.queues.list() == []


async def test_deep_brackets_inside_a_text_are_not_nesting(hand: HttpCaller) -> None:
    payload = '["' + "[" * 1000 + '\\"{' + '"]'
    body = b'{"items":[{"queue":"q","payload":%s}]}' % payload.encode()

    await hand.post("/api/v1/push", body, expect=201)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/api/v1/push", b'{"items":[{"queue":"q","payload":%(payload)b}]}', "items[0].payload"),
        (
            "/api/v1/transaction",
            b'{"operations":[{"type":"push","items":[{"queue":"q","payload":%(payload)b}]}]}',
            "operations[0].items[0].payload",
        ),
        (
            "/streams/v1/cycle",
            b'{"query_id":"%(id)b","partition_id":"%(id)b",'
            b'"push_items":[{"queue":"q","payload":%(payload)b}]}',
            "push_items[0].payload",
        ),
        (
            "/api/v1/traces",
            b'{"partitionId":"%(id)b","transactionId":"t","data":%(payload)b}',
            "data",
        ),
    ],
)
async def test_the_size_of_a_payload_is_checked_before_its_depth(
    hand: HttpCaller, path: str, body: bytes, field: str
) -> None:
    (pushed,) = await hand.push("orders", 1, transactionId="t")
    most = hand.broker.limits.payload_bytes
    payload = b"[" * 200 + b" " * (most - 399) + b"]" * 200
    values = {b"id": pushed["partition_id"].encode(), b"payload": payload}

    refused = await hand.post(path, body % values, expect=400)

    assert refused["error"] == f"{field}: is {most + 1} bytes long, at most {most} are allowed"


async def test_a_full_queue_answers_429_with_its_numbers(hand: HttpCaller) -> None:
    await hand.broker.queues.configure("small", max_size=3)
    await hand.push("small", 1, 2)

    answer = await hand.http.post(
        "/api/v1/push", json={"items": [{"queue": "small", "payload": n} for n in range(2)]}
    )

    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    problem = answer.json()
    assert (problem["code"], problem["depth"], problem["remaining"]) == ("QUEUE_FULL", 2, 1)


async def test_a_path_that_is_not_there_says_where_to_look(hand: HttpCaller) -> None:
    answer = await hand.http.get("/api/v2/push")

    assert answer.status_code == 404
    assert "/docs" in answer.json()["error"]


async def test_a_method_that_is_not_possible_says_which_are(hand: HttpCaller) -> None:
    answer = await hand.http.get("/api/v1/push")

    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


async def test_a_head_request_does_not_pop(broker: Broker) -> None:
    await broker.push("orders", [Draft(b"1")])

    async with knock(make_app(broker)) as client:
        answer = await client.head("/api/v1/pop/queue/orders?autoAck=true")

    assert answer.status_code == 405
    assert await broker.pop("orders") is not None
