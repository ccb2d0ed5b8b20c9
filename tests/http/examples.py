"""A call of every route, about a queue that the test chooses.

A route that is not here fails the matrix in ``test_access.py``: whoever adds one says here how it
is called, and what it means for a caller who may see some queues only.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from skep import Broker, Draft
from skep.http.access import Permission
from skep.http.routing import Route
from skep.model.address import partition_id
from tests.broker.build import lease_of, pop


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A queue of the namespace ``shop`` in which there is something to be done: a message that
    one group has leased, and every other group has not, and one that was given up."""

    queue: str
    partition_id: str
    lease_id: str
    transaction_id: str
    query_id: str
    """Of a stream query that reads the queue, and whose name is the queue's."""
    dead_id: str
    """Of a message, in the same partition, that the group ``undertaker`` has given up."""
    letter: int
    """The number of its dead letter."""


async def make_place(broker: Broker, queue: str) -> Place:
    await broker.queues.configure(queue, namespace="shop")
    await broker.push(queue, [Draft(b"1", transaction_id=f"{queue}-1")])
    (dead,) = await broker.push(queue, [Draft(b"2", transaction_id=f"{queue}-2")])
    for group in ("undertaker", "sleeper"):
        await broker.pop(queue, group=group, partition="none")
    await broker.giving_up.give_up(dead.id, group="undertaker")
    (letter,) = await broker.dead_letters.list(queue)
    delivery = await pop(broker, queue, group="billing", lease_seconds=60)
    number = delivery.messages[0].partition_number
    query, _ = await broker.streams.register(queue, source_queue=queue, config_hash="1")
    await broker.streams.cycle(query.id, number, state=[("total", b"1")])
    return Place(
        queue=queue,
        partition_id=str(partition_id(number)),
        lease_id=lease_of(delivery),
        transaction_id=f"{queue}-1",
        query_id=str(query.id),
        dead_id=f"{queue}-2",
        letter=letter.number,
    )


Body = Callable[[Place], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """``about`` is what a call means for somebody who may see some queues only:

    * one queue: he may call it for his own;
    * every queue: it touches more than is named, so he may not call it at all;
    * what he sees: he may call it, and gets an answer without the others.

    ``path`` is left out if it is the route's; ``writes`` says whether it changes what is stored;
    ``permissions`` are for a route that needs more than it declares, or something else.
    """

    path: str | None = None
    body: Body | None = None
    writes: bool = True
    about: Literal["one queue", "every queue", "what he sees"] = "one queue"
    permissions: frozenset[Permission] | None = None
    status: int | None = None
    """What it answers here to who may, if that is not the route's."""

    def path_of(self, route: Route, place: Place) -> str:
        return route.path if self.path is None else self.path.format(place=place)

    def needs(self, route: Route) -> frozenset[Permission]:
        declared = frozenset({route.needs}) - {Permission.NONE}
        return declared if self.permissions is None else self.permissions

    def status_of(self, route: Route) -> int:
        return route.status if self.status is None else self.status


def _ack(place: Place) -> dict[str, str]:
    return {
        "transactionId": place.transaction_id,
        "partitionId": place.partition_id,
        "leaseId": place.lease_id,
    }


def _transaction(place: Place) -> dict[str, Any]:
    push = {"type": "push", "items": [{"queue": place.queue, "payload": 1}]}
    return {"operations": [push, {"type": "ack", **_ack(place)}]}


def _cycle(place: Place) -> dict[str, Any]:
    return {
        "query_id": place.query_id,
        "partition_id": place.partition_id,
        "state_ops": [{"type": "upsert", "key": "total", "value": 2}],
        "push_items": [{"queue": place.queue, "payload": 1}],
        "ack": {"transactionId": place.transaction_id, "leaseId": place.lease_id},
    }


def _trace(place: Place) -> dict[str, Any]:
    return {
        "transactionId": place.transaction_id,
        "partitionId": place.partition_id,
        "data": {"ms": 12},
        "traceNames": ["checkout"],
    }


def _seen(*paths: str) -> dict[tuple[str, str], Example]:
    """Lists and numbers: everybody gets what he sees of them."""
    return {("GET", path): Example(about="what he sees", writes=False) for path in paths}


def _shown(*paths: str) -> dict[tuple[str, str], Example]:
    """What is there of one queue."""
    return {
        ("GET", path): Example(path=path.format(**_NAMES), writes=False, about="one queue")
        for path in paths
    }


_NAMES = {
    "queue": "{place.queue}",
    "partition": "Default",
    "partition_id": "{place.partition_id}",
    "transaction_id": "{place.transaction_id}",
    "number": "{place.letter}",
}
_GROUPS = "/api/v1/consumer-groups"
_MESSAGE = "/api/v1/messages/{partition_id}/{transaction_id}"
_MESSAGE_HERE = "/api/v1/messages/{place.partition_id}/{place.transaction_id}"
_DEAD_HERE = "/api/v1/messages/{place.partition_id}/{place.dead_id}"

_QUEUES: dict[tuple[str, str], Example] = {
    ("POST", "/api/v1/configure"): Example(body=lambda place: {"queue": place.queue}),
    ("DELETE", "/api/v1/resources/queues/{queue}"): Example(
        path="/api/v1/resources/queues/{place.queue}"
    ),
    ("DELETE", "/api/v1/queues/{queue}/clear"): Example(path="/api/v1/queues/{place.queue}/clear"),
    **_seen(
        "/api/v1/resources/overview",
        "/api/v1/resources/queues",
        "/api/v1/resources/namespaces",
        "/api/v1/resources/tasks",
        "/api/v1/resources/partitions",
    ),
    **_shown("/api/v1/resources/queues/{queue}", "/api/v1/resources/queues/{queue}/depth"),
}

_OF_GROUPS: dict[tuple[str, str], Example] = {
    **_seen(_GROUPS, f"{_GROUPS}/lagging"),
    ("GET", f"{_GROUPS}/{{group}}"): Example(
        path=f"{_GROUPS}/billing", about="what he sees", writes=False
    ),
    ("DELETE", f"{_GROUPS}/{{group}}"): Example(path=f"{_GROUPS}/billing", about="what he sees"),
    ("DELETE", f"{_GROUPS}/{{group}}/queues/{{queue}}"): Example(
        path=f"{_GROUPS}/billing/queues/{{place.queue}}"
    ),
    ("POST", f"{_GROUPS}/{{group}}/subscription"): Example(
        path=f"{_GROUPS}/sleeper/subscription",
        body=lambda place: {"subscriptionTimestamp": "2030-01-01T00:00:00Z"},
        about="what he sees",
    ),
    ("POST", f"{_GROUPS}/{{group}}/queues/{{queue}}/seek"): Example(
        path=f"{_GROUPS}/billing/queues/{{place.queue}}/seek", body=lambda place: {"toEnd": True}
    ),
    ("POST", f"{_GROUPS}/{{group}}/queues/{{queue}}/partitions/{{partition}}/seek"): Example(
        path=f"{_GROUPS}/billing/queues/{{place.queue}}/partitions/Default/seek",
        body=lambda place: {"toEnd": True},
    ),
}

_OF_MESSAGES: dict[tuple[str, str], Example] = {
    **_seen("/api/v1/messages", "/api/v1/dlq", "/api/v1/traces/names"),
    **_shown(_MESSAGE, "/api/v1/dlq/{queue}/{number}"),
    **_shown("/api/v1/traces/{partition_id}/{transaction_id}"),
    ("DELETE", _MESSAGE): Example(path=_MESSAGE_HERE),
    ("POST", f"{_MESSAGE}/retry"): Example(path=f"{_DEAD_HERE}/retry"),
    ("POST", f"{_MESSAGE}/dlq"): Example(
        path=f"{_MESSAGE_HERE}/dlq", body=lambda place: {"consumerGroup": "undertaker"}
    ),
    ("POST", "/api/v1/dlq/{queue}/replay"): Example(
        path="/api/v1/dlq/{place.queue}/replay", body=lambda place: {"all": True}
    ),
    ("DELETE", "/api/v1/dlq/{queue}"): Example(path="/api/v1/dlq/{place.queue}?all=true"),
    ("POST", "/api/v1/traces"): Example(body=_trace),
    ("GET", "/api/v1/traces/by-name/{name}"): Example(
        path="/api/v1/traces/by-name/checkout", about="what he sees", writes=False
    ),
    ("GET", "/api/v1/traces/id/{trace_id}"): Example(
        path="/api/v1/traces/id/11111111-2222-4333-8444-555555555555",
        about="what he sees",
        writes=False,
    ),
}

_NUMBERS: dict[tuple[str, str], Example] = {
    **_seen(
        "/api/v1/status",
        "/api/v1/status/queues",
        "/api/v1/status/analytics",
        "/api/v1/status/buffers",
        "/api/v1/analytics/system-metrics",
        "/api/v1/analytics/worker-metrics",
        "/api/v1/analytics/postgres-stats",
        "/api/v1/analytics/queue-lag",
        "/api/v1/analytics/queue-ops",
        "/api/v1/analytics/queue-parked-replicas",
        "/api/v1/analytics/retention",
        "/health",
        "/health/live",
        "/health/ready",
        "/metrics",
        "/metrics/prometheus",
    ),
    **_shown("/api/v1/status/queues/{queue}", "/api/v1/status/queues/{queue}/messages"),
    ("POST", "/api/v1/stats/refresh"): Example(about="what he sees", writes=False),
}

_PUSH_AND_POP = frozenset({Permission.PUSH, Permission.POP})
_ABOUT = ("/openapi.json", "/docs", "/docs.css")
_MAINTENANCE = "/api/v1/system/maintenance"

EXAMPLES: dict[tuple[str, str], Example] = {
    **_QUEUES,
    **_OF_GROUPS,
    **_OF_MESSAGES,
    **_NUMBERS,
    ("POST", "/api/v1/push"): Example(
        body=lambda place: {"items": [{"queue": place.queue, "payload": 1}]},
    ),
    ("GET", "/api/v1/pop/queue/{queue}"): Example(
        path="/api/v1/pop/queue/{place.queue}?consumerGroup=audit",
    ),
    ("GET", "/api/v1/pop/queue/{queue}/partition/{partition}"): Example(
        path="/api/v1/pop/queue/{place.queue}/partition/Default?consumerGroup=audit",
    ),
    ("GET", "/api/v1/pop"): Example(
        path="/api/v1/pop?namespace=shop&consumerGroup=audit", about="every queue"
    ),
    ("POST", "/api/v1/ack"): Example(body=lambda place: _ack(place) | {"consumerGroup": "billing"}),
    ("POST", "/api/v1/ack/batch"): Example(
        body=lambda place: {"acknowledgments": [_ack(place)], "consumerGroup": "billing"},
    ),
    ("POST", "/api/v1/lease/{lease}/settle"): Example(path="/api/v1/lease/{place.lease_id}/settle"),
    ("POST", "/api/v1/lease/{lease}/extend"): Example(
        path="/api/v1/lease/{place.lease_id}/extend", body=lambda place: {"seconds": 600}
    ),
    ("POST", "/api/v1/transaction"): Example(body=_transaction, permissions=_PUSH_AND_POP),
    ("POST", "/streams/v1/queries"): Example(
        body=lambda place: {
            "name": place.queue,
            "source_queue": place.queue,
            "config_hash": "2",
            "reset": True,
        },
    ),
    ("POST", "/streams/v1/state/get"): Example(
        body=lambda place: {"query_id": place.query_id, "partition_id": place.partition_id},
        writes=False,
    ),
    ("POST", "/streams/v1/cycle"): Example(body=_cycle, permissions=_PUSH_AND_POP),
    # A store in memory has nothing to back up, and a server is not told where.
    ("POST", "/api/v1/system/backup"): Example(
        body=lambda place: {"path": "today"}, about="every queue", writes=False, status=409
    ),
    **{
        ("POST", path): Example(body=lambda place: {"enabled": True}, about="every queue")
        for path in (_MAINTENANCE, f"{_MAINTENANCE}/pop")
    },
    **{
        ("GET", path): Example(about="what he sees", writes=False)
        for path in (_MAINTENANCE, f"{_MAINTENANCE}/pop", "/api/v1/system/shared-state", *_ABOUT)
    },
}
