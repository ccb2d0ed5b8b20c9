"""Acknowledging and keeping leases over HTTP."""

from uuid import UUID

import pytest

from tests.support.http.memory_app import JSON, HttpCaller, acks_of

LEASE = UUID("7c9e6679-7425-40de-944b-e07fc1f90ae7")


async def popped(hand: HttpCaller, *payloads: object, **query: object) -> JSON:
    await hand.push("orders", *payloads)
    found = await hand.pop("orders", batch=100, **query)
    assert found is not None
    return found


async def test_an_ack_answers_an_array_of_one(hand: HttpCaller) -> None:
    delivery = await popped(hand, 1)

    answer = await hand.post("/api/v1/ack", acks_of(delivery)[0])

    assert answer == [
        {
            "index": 0,
            "transactionId": delivery["messages"][0]["transactionId"],
            "success": True,
            "error": None,
            "queueName": "orders",
            "partitionName": "Default",
            "leaseReleased": True,
            "dlq": False,
        }
    ]


async def test_single_acks_free_the_lease_with_the_last(hand: HttpCaller) -> None:
    delivery = await popped(hand, 1, 2, 3)

    answers = [(await hand.post("/api/v1/ack", ack))[0] for ack in acks_of(delivery)]

    assert [answer["leaseReleased"] for answer in answers] == [False, False, True]


async def test_success_is_another_word_for_completed(hand: HttpCaller) -> None:
    delivery = await popped(hand, 1)

    (answer,) = await hand.post("/api/v1/ack", acks_of(delivery, "success")[0])

    assert answer["success"] is True


async def test_a_batch_is_answered_in_its_order_and_what_failed_of_it_is_dead(
    hand: HttpCaller,
) -> None:
    delivery = await popped(hand, 1, 2, 3)
    acks = acks_of(delivery)
    acks[1] |= {"status": "failed", "error": "no stock"}

    answers = await hand.post("/api/v1/ack/batch", {"acknowledgments": acks})

    assert [(a["index"], a["success"], a["dlq"]) for a in answers] == [
        (0, True, False),
        (1, True, True),
        (2, True, False),
    ]
    (letter,) = await hand.broker.dead_letters.list("orders")
    assert (letter.payload, letter.error) == (b"2", "no stock")


async def test_dlq_makes_a_dead_letter_at_once(hand: HttpCaller) -> None:
    delivery = await popped(hand, 1)

    (answer,) = await hand.post("/api/v1/ack", acks_of(delivery, "dlq")[0])

    assert answer["dlq"] is True


async def test_retry_gives_the_lease_back_without_counting(hand: HttpCaller) -> None:
    delivery = await popped(hand, 1)

    await hand.post("/api/v1/ack", acks_of(delivery, "retry")[0])

    again = await hand.pop("orders")
    assert again is not None


async def test_a_message_that_is_not_there_does_not_spoil_the_others(hand: HttpCaller) -> None:
    delivery = await popped(hand, 1)
    acks = acks_of(delivery)

    answers = await hand.post(
        "/api/v1/ack/batch", {"acknowledgments": [{**acks[0], "transactionId": "none"}, *acks]}
    )

    assert [(a["success"], a["error"]) for a in answers] == [
        (False, "Message not found"),
        (True, None),
    ]


@pytest.mark.parametrize("lease", [None, "", "nonsense", str(LEASE)])
async def test_an_ack_without_its_lease_changes_nothing_and_says_so(
    hand: HttpCaller, lease: str | None
) -> None:
    delivery = await popped(hand, 1)

    (answer,) = await hand.post("/api/v1/ack", {**acks_of(delivery)[0], "leaseId": lease})

    assert (answer["success"], answer["error"]) == (False, "Invalid or expired lease")
    hand.clock.advance(301)
    assert await hand.pop("orders") is not None


async def test_a_late_ack_changes_nothing_and_says_so(hand: HttpCaller) -> None:
    delivery = await popped(hand, 1)
    hand.clock.advance(301)

    (answer,) = await hand.post("/api/v1/ack", acks_of(delivery)[0])

    assert answer["success"] is False
    assert await hand.pop("orders") is not None


async def test_a_lost_lease_takes_only_its_own_items_with_it(hand: HttpCaller) -> None:
    lost = await popped(hand, 1)
    hand.clock.advance(301)
    held = await hand.pop("orders")
    assert held is not None

    answers = await hand.post(
        "/api/v1/ack/batch", {"acknowledgments": [*acks_of(lost), *acks_of(held)]}
    )

    assert [answer["success"] for answer in answers] == [False, True]


async def test_an_ack_of_another_group_is_refused(hand: HttpCaller) -> None:
    delivery = await popped(hand, 1, consumerGroup="billing")

    (answer,) = await hand.post(
        "/api/v1/ack", {**acks_of(delivery)[0], "consumerGroup": "shipping"}
    )

    assert answer["success"] is False


async def test_what_is_said_twice_counts_once(hand: HttpCaller) -> None:
    delivery = await popped(hand, 1)
    acks = [*acks_of(delivery), *acks_of(delivery, "failed")]

    answers = await hand.post("/api/v1/ack/batch", {"acknowledgments": acks})

    assert [answer["dlq"] for answer in answers] == [False, False]
    assert await hand.broker.dead_letters.list("orders") == []


@pytest.mark.parametrize("body", [{"seconds": 600}, {}, None])
async def test_a_lease_is_kept(hand: HttpCaller, body: JSON | None) -> None:
    delivery = await popped(hand, 1)
    hand.clock.advance(299)

    answer = await hand.post(f"/api/v1/lease/{delivery['leaseId']}/extend", body)

    assert (answer["success"], answer["renewed"]) == (True, 1)
    assert answer["newExpiresAt"] == answer["expiresAt"] == answer["lease_expires_at"]
    hand.clock.advance(59)
    assert await hand.pop("orders") is None


async def test_a_lease_that_is_lost_is_not_kept_and_the_answer_says_so(hand: HttpCaller) -> None:
    delivery = await popped(hand, 1)
    hand.clock.advance(301)

    problem = await hand.post(f"/api/v1/lease/{delivery['leaseId']}/extend", {}, expect=409)

    assert problem["type"] == "LeaseLost"


async def test_a_whole_lease_is_settled_without_naming_its_messages(hand: HttpCaller) -> None:
    delivery = await popped(hand, 1, 2)

    answer = await hand.post(f"/api/v1/lease/{delivery['leaseId']}/settle", {"status": "completed"})

    assert (answer["completed"], answer["released"]) == (2, True)


async def test_messages_of_a_lease_are_settled_by_offset(hand: HttpCaller) -> None:
    delivery = await popped(hand, 1, 2)
    partition = delivery["partitionId"]
    verdicts = [
        {"partitionId": partition, "offset": 0, "status": "completed"},
        {"partitionId": partition, "offset": 1, "status": "failed", "error": "no"},
    ]

    answer = await hand.post(f"/api/v1/lease/{delivery['leaseId']}/settle", {"verdicts": verdicts})

    assert answer == {
        "completed": 1,
        "givenUp": [{"partitionId": partition, "offset": 1}],
        "retryAt": None,
        "released": True,
    }


async def test_settling_a_lost_lease_is_a_conflict(hand: HttpCaller) -> None:
    problem = await hand.post(f"/api/v1/lease/{LEASE}/settle", {"status": "completed"}, expect=409)

    assert problem["type"] == "LeaseLost"


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/api/v1/ack", {}, "transactionId"),
        ("/api/v1/ack", {"transactionId": "t"}, "partitionId"),
        ("/api/v1/ack", {"transactionId": "t", "partitionId": "x"}, "partitionId"),
        (
            "/api/v1/ack",
            {"transactionId": "t", "partitionId": str(LEASE), "status": "fine"},
            "status",
        ),
        ("/api/v1/ack/batch", {}, "acknowledgments"),
        ("/api/v1/ack/batch", {"acknowledgments": [{}]}, "acknowledgments[0].transactionId"),
        ("/api/v1/lease/nonsense/extend", {}, "leaseId"),
        ("/api/v1/lease/nonsense/settle", {}, "leaseId"),
        (f"/api/v1/lease/{LEASE}/extend", {"seconds": 0}, "seconds"),
        (f"/api/v1/lease/{LEASE}/extend", {"seconds": "x"}, "seconds"),
        (f"/api/v1/lease/{LEASE}/settle", {"verdicts": [{}]}, "verdicts[0].partitionId"),
        (f"/api/v1/lease/{LEASE}/settle", {}, "status"),
        (f"/api/v1/lease/{LEASE}/settle", {"status": None}, "status"),
        (
            f"/api/v1/lease/{LEASE}/settle",
            {"verdicts": [{"partitionId": str(LEASE), "offset": 0}]},
            "verdicts[0].status",
        ),
    ],
)
async def test_a_bad_ack_is_refused_by_the_name_of_its_field(
    hand: HttpCaller, path: str, body: JSON, field: str
) -> None:
    refused = await hand.post(path, body, expect=400)

    assert refused["field"] == field
