"""Who may do what: queues that are named in other ways than the matrix of routes tries."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import httpx
import pytest

from skep.http.auth.principal import Principal
from skep.model.address import partition_id
from tests.support.http.access_example import QueueExample
from tests.support.http.authenticated_app import knock
from tests.support.http.token_signing import bearer, sign
from tests.support.http.two_queues import OTHER, OWN, TwoQueues


async def send(scene: TwoQueues, path: str, body: Any, **token: Any) -> httpx.Response:
    """Post something as alice, who may see her own queue only."""
    async with knock(scene.app, **bearer(sign(**{"queues": [OWN]} | token))) as client:
        return await client.post(path, json=body)


# Names of queues.


@pytest.mark.parametrize(
    ("pattern", "seen"),
    [
        ("orders", ["orders"]),
        ("orders*", ["orders", "orders-eu", "orders*"]),
        ("*", ["orders", "orders-eu", "orders*", "Orders", "xorders", "o.ders"]),
        ("o.ders", ["o.ders"]),
        ("o*s", []),
        ("", []),
        ("[a-z]*", []),
        (".*", []),
    ],
)
def test_a_name_is_matched_letter_by_letter_and_a_star_counts_at_its_end_only(
    pattern: str, seen: list[str]
) -> None:
    principal = Principal(None, frozenset(), (pattern,))
    names = ["orders", "orders-eu", "orders*", "Orders", "xorders", "o.ders"]

    assert [name for name in names if principal.sees(name)] == seen


@pytest.mark.parametrize(
    "spelling",
    [
        "p%61yments",
        "payments%2fpartition%2fDefault",
        "orders%2f..%2fpayments",
        "orders/../payments",
        "Orders",
        "orders%00",
        "orders%20",
    ],
)
async def test_a_name_in_the_path_is_compared_as_it_is_used(
    spelling: str, scene: TwoQueues
) -> None:
    before = scene.kept()

    async with knock(scene.app, **bearer(sign(queues=[OWN]))) as client:
        answer = await client.get(
            httpx.URL("http://skep.test", raw_path=f"/api/v1/pop/queue/{spelling}".encode())
        )

    assert answer.status_code in (403, 404)
    assert scene.kept() == before


# Queues that only the body names.


async def test_a_push_to_ones_own_queue_and_another_is_denied_whole(scene: TwoQueues) -> None:
    before = scene.kept()
    items = [{"queue": name, "payload": 1} for name in (OWN, OTHER, OWN)]

    answer = await send(scene, "/api/v1/push", {"items": items})

    assert answer.status_code == 403
    assert scene.kept() == before


async def test_a_queue_that_is_not_ones_own_cannot_be_made_by_pushing(scene: TwoQueues) -> None:
    answer = await send(scene, "/api/v1/push", {"items": [{"queue": "new", "payload": 1}]})

    assert answer.status_code == 403
    assert [queue.name for queue in await scene.broker.queues.list()] == [OWN, OTHER]


async def test_acks_of_ones_own_queue_and_another_are_denied_whole(scene: TwoQueues) -> None:
    before = scene.kept()
    acks = [
        {
            "transactionId": place.transaction_id,
            "partitionId": place.partition_id,
            "leaseId": place.lease_id,
        }
        for place in (scene.own, scene.other)
    ]

    answer = await send(scene, "/api/v1/ack/batch", {"acknowledgments": acks})

    assert answer.status_code == 403
    assert scene.kept() == before


async def test_ones_own_lease_does_not_open_another_queue(scene: TwoQueues) -> None:
    before = scene.kept()
    foreign = {
        "partitionId": scene.other.partition_id,
        "offset": 0,
        "status": "completed",
    }

    ack = await send(
        scene,
        "/api/v1/ack",
        {
            "transactionId": scene.other.transaction_id,
            "partitionId": scene.other.partition_id,
            "leaseId": scene.own.lease_id,
        },
    )
    settle = await send(
        scene, f"/api/v1/lease/{scene.own.lease_id}/settle", {"verdicts": [foreign]}
    )

    assert (ack.status_code, settle.status_code) == (403, 403)
    assert scene.kept() == before


async def test_a_group_that_reads_another_queue_is_not_taken_to_ones_own(scene: TwoQueues) -> None:
    before = scene.kept()
    path = f"/api/v1/journal/groups/{OTHER}"

    moved = await send(scene, f"{path}/position", {"position": scene.own.position})
    async with knock(scene.app, **bearer(sign(queues=[OWN]))) as client:
        begun = await client.put(path, json={"queues": [OWN], "start": "latest"})

    assert (moved.status_code, begun.status_code) == (403, 403)
    assert scene.kept() == before


async def test_the_lease_of_another_queue_does_nothing_in_ones_own(scene: TwoQueues) -> None:
    before = scene.kept()

    answer = await send(
        scene,
        "/api/v1/ack",
        {
            "transactionId": scene.own.transaction_id,
            "partitionId": scene.own.partition_id,
            "leaseId": scene.other.lease_id,
        },
    )

    assert [each["success"] for each in answer.json()] == [False]
    assert scene.kept() == before


@pytest.mark.parametrize("action", ["settle", "extend"])
async def test_the_lease_of_another_queue_cannot_be_used(action: str, scene: TwoQueues) -> None:
    before = scene.kept()

    answer = await send(scene, f"/api/v1/lease/{scene.other.lease_id}/{action}", {})

    assert answer.status_code == 403
    assert scene.kept() == before


async def test_a_refusal_does_not_tell_what_the_queue_behind_an_id_is_called(
    scene: TwoQueues,
) -> None:
    answers = [
        await send(
            scene,
            "/api/v1/ack",
            {"transactionId": "guess", "partitionId": scene.other.partition_id},
        ),
        await send(scene, f"/api/v1/lease/{scene.other.lease_id}/extend", {}),
        await send(scene, f"/api/v1/lease/{uuid4()}/settle", {"status": "completed"}),
    ]

    assert [answer.status_code for answer in answers] == [403, 403, 409]
    assert not [answer for answer in answers if OTHER in answer.text]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/api/v1/messages/{partition}/{transaction}", None),
        ("DELETE", "/api/v1/messages/{partition}/{transaction}", None),
        ("GET", "/api/v1/traces/{partition}/{transaction}", None),
        ("POST", "/api/v1/traces", {"partitionId": "{partition}", "transactionId": "x", "data": 1}),
        ("POST", "/api/v1/ack", {"partitionId": "{partition}", "transactionId": "x"}),
        ("POST", "/api/v1/lease/{lease}/extend", {"seconds": 10}),
        ("POST", "/streams/v1/state/get", {"query_id": "{query}", "partition_id": "{partition}"}),
        ("GET", "/api/v1/journal/groups/{queue}", None),
        ("GET", "/api/v1/pipelines/{queue}", None),
        ("GET", "/api/v1/resources/queues/{queue}", None),
    ],
)
async def test_what_is_not_there_and_what_is_of_another_queue_look_the_same(
    scene: TwoQueues, method: str, path: str, body: Any
) -> None:
    other = scene.other
    there = {
        "partition": other.partition_id,
        "transaction": other.transaction_id,
        "lease": other.lease_id,
        "query": other.query_id,
        "queue": other.queue,
    }
    not_there = {
        "partition": str(partition_id(999)),
        "transaction": "unknown",
        "lease": str(uuid4()),
        "query": str(uuid4()),
        "queue": "unknown",
    }
    async with knock(scene.app, **bearer(sign(sub="mallory", queues=[OWN]))) as client:
        answers = [
            await client.request(method, path.format(**names), json=_filled(body, names))
            for names in (there, not_there)
        ]

    first, second = answers
    assert first.status_code == second.status_code
    assert first.status_code in (403, 409)
    assert first.text.replace(there["lease"], "") == second.text.replace(not_there["lease"], "")


def _filled(body: dict[str, Any] | None, names: dict[str, str]) -> dict[str, Any] | None:
    return body and {
        name: value.format(**names) if isinstance(value, str) else value
        for name, value in body.items()
    }


# Transactions and streams.


@pytest.mark.parametrize(
    "foreign",
    [
        lambda own, other: {"type": "push", "queue": other.queue, "payload": 1},
        lambda own, other: {"type": "push", "items": [{"queue": other.queue, "payload": 1}]},
        lambda own, other: {
            "type": "ack",
            "transactionId": other.transaction_id,
            "partitionId": other.partition_id,
            "leaseId": own.lease_id,
        },
        lambda own, other: {"type": "settle", "leaseId": other.lease_id},
        lambda own, other: {
            "type": "settle",
            "leaseId": own.lease_id,
            "verdicts": [{"partitionId": other.partition_id, "offset": 0, "status": "completed"}],
        },
        lambda own, other: {"type": "extend", "leaseId": other.lease_id},
    ],
)
async def test_a_transaction_with_one_operation_on_another_queue_is_denied_whole(
    foreign: Callable[[QueueExample, QueueExample], dict[str, Any]], scene: TwoQueues
) -> None:
    before = scene.kept()
    push = {"type": "push", "queue": OWN, "payload": 1}
    extend = {"type": "extend", "leaseId": scene.own.lease_id}
    operations = [push, foreign(scene.own, scene.other), extend]

    answer = await send(scene, "/api/v1/transaction", {"operations": operations})

    assert answer.status_code == 403
    assert scene.kept() == before


async def test_a_transaction_cannot_depend_on_the_lease_of_another_queue(scene: TwoQueues) -> None:
    body = {
        "operations": [{"type": "push", "queue": OWN, "payload": 1}],
        "requiredLeases": [scene.other.lease_id],
    }

    answer = await send(scene, "/api/v1/transaction", body)

    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("role", "operation"),
    [
        ("producer", {"type": "extend"}),
        ("producer", {"type": "settle"}),
        ("consumer", {"type": "push", "queue": OWN, "payload": 1}),
        ("operator", {"type": "push", "queue": OWN, "payload": 1}),
    ],
)
async def test_a_transaction_needs_what_each_of_its_operations_needs(
    role: str, operation: dict[str, Any], scene: TwoQueues
) -> None:
    before = scene.kept()
    operations = [{**operation, "leaseId": scene.own.lease_id}]

    answer = await send(scene, "/api/v1/transaction", {"operations": operations}, role=role)

    assert answer.status_code == 403
    assert scene.kept() == before


async def test_a_query_cannot_push_into_another_queue(scene: TwoQueues) -> None:
    before = scene.kept()
    place = {"query_id": scene.own.query_id, "partition_id": scene.own.partition_id}
    items = [{"queue": name, "payload": 1} for name in (OWN, OTHER)]

    cycle = await send(scene, "/streams/v1/cycle", {**place, "push_items": items})
    query = await send(
        scene,
        "/streams/v1/queries",
        {"name": "new", "source_queue": OWN, "sink_queue": OTHER, "config_hash": "1"},
    )

    assert (cycle.status_code, query.status_code) == (403, 403)
    assert scene.kept() == before


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("config_hash", ["1", "2"])
async def test_a_query_over_another_queue_cannot_be_taken_over_by_its_name(
    reset: bool, config_hash: str, scene: TwoQueues
) -> None:
    before = scene.kept()
    body = {"name": OTHER, "source_queue": OWN, "config_hash": config_hash, "reset": reset}

    answer = await send(scene, "/streams/v1/queries", body)

    assert answer.status_code == 403
    assert scene.kept() == before


async def test_a_consumer_cannot_push_through_a_query(scene: TwoQueues) -> None:
    before = scene.kept()
    body = {
        "query_id": scene.own.query_id,
        "partition_id": scene.own.partition_id,
        "push_items": [{"queue": OWN, "payload": 1}],
    }

    answer = await send(scene, "/streams/v1/cycle", body, role="consumer")

    assert answer.status_code == 403
    assert scene.kept() == before


# Who pushed it.


async def pushed_by(scene: TwoQueues, queue: str, group: str = "reader") -> list[str | None]:
    async with knock(scene.app, **bearer(sign())) as client:
        answer = await client.get(f"/api/v1/pop/queue/{queue}?batch=10&consumerGroup={group}")
    return [message["producerSub"] for message in answer.json()["messages"]]


async def test_a_message_says_who_pushed_it_whatever_its_body_says(scene: TwoQueues) -> None:
    item = {"queue": "fresh", "payload": 1, "producerSub": "mallory", "producer_sub": "mallory"}

    await send(scene, "/api/v1/push", {"items": [item], "producerSub": "mallory"}, queues=None)

    assert await pushed_by(scene, "fresh") == ["alice"]


async def test_messages_for_several_queues_say_who_pushed_them(scene: TwoQueues) -> None:
    items = [{"queue": name, "payload": 1, "producerSub": "mallory"} for name in ("a", "b")]

    await send(scene, "/api/v1/push", {"items": items}, queues=["a", "b"])

    assert await pushed_by(scene, "a") + await pushed_by(scene, "b") == ["alice", "alice"]


async def test_a_token_without_a_subject_leaves_the_message_without_a_producer(
    scene: TwoQueues,
) -> None:
    item = {"queue": "fresh", "payload": 1, "producerSub": "mallory"}

    await send(scene, "/api/v1/push", {"items": [item]}, queues=None, sub="")

    assert await pushed_by(scene, "fresh") == [None]
