"""A call of every route, about a queue that the test chooses.

A route that is not here fails ``test_access_matrix.py``: whoever adds one says here how it is
called, what it needs, and what it means for a caller who may see some queues only.
"""

from typing import Any

from tests.support.http.access_example import (
    OPERATE,
    POP,
    PUSH,
    READ,
    STATUS,
    Calls,
    Example,
    QueueExample,
)
from tests.support.http.arrow_streams import to_stream
from tests.support.http.operator_route_examples import OF_OPERATORS, WITHOUT_QUEUE

__all__ = ["EXAMPLES", "WITHOUT_QUEUE"]


def _ack(place: QueueExample) -> dict[str, str]:
    return {
        "transactionId": place.transaction_id,
        "partitionId": place.partition_id,
        "leaseId": place.lease_id,
    }


def _transaction(place: QueueExample) -> dict[str, Any]:
    push = {"type": "push", "items": [{"queue": place.queue, "payload": 1}]}
    return {"operations": [push, {"type": "ack", **_ack(place)}]}


def _cycle(place: QueueExample) -> dict[str, Any]:
    return {
        "query_id": place.query_id,
        "partition_id": place.partition_id,
        "state_ops": [{"type": "upsert", "key": "total", "value": 2}],
        "push_items": [{"queue": place.queue, "payload": 1}],
        "ack": {"transactionId": place.transaction_id, "leaseId": place.lease_id},
    }


def _ranges(place: QueueExample) -> dict[str, Any]:
    known = place.position["queues"][place.queue]
    return {
        "queue": place.queue,
        "number": known["number"],
        "ranges": [[int(lane), 0, head] for lane, head in known["lanes"].items()],
        "columns": ["partition", "offset", "payload"],
    }


EXAMPLES: Calls = {
    **OF_OPERATORS,
    ("POST", "/api/v1/push"): Example(
        body=lambda place: {"items": [{"queue": place.queue, "payload": 1}]},
        needs=PUSH,
    ),
    ("GET", "/api/v1/pop/queue/{queue}"): Example(
        needs=POP,
        path="/api/v1/pop/queue/{place.queue}?consumerGroup=audit",
    ),
    ("GET", "/api/v1/pop/queue/{queue}/partition/{partition}"): Example(
        needs=POP,
        path="/api/v1/pop/queue/{place.queue}/partition/Default?consumerGroup=audit",
    ),
    ("GET", "/api/v1/pop"): Example(
        needs=POP, path="/api/v1/pop?namespace=shop&consumerGroup=audit", about="every queue"
    ),
    ("POST", "/api/v1/ack"): Example(
        needs=POP, body=lambda place: _ack(place) | {"consumerGroup": "billing"}
    ),
    ("POST", "/api/v1/ack/batch"): Example(
        needs=POP,
        body=lambda place: {"acknowledgments": [_ack(place)], "consumerGroup": "billing"},
    ),
    ("POST", "/api/v1/lease/{leaseId}/settle"): Example(
        needs=POP,
        path="/api/v1/lease/{place.lease_id}/settle",
        body=lambda place: {"status": "completed"},
    ),
    ("POST", "/api/v1/lease/{leaseId}/extend"): Example(
        needs=POP, path="/api/v1/lease/{place.lease_id}/extend", body=lambda place: {"seconds": 600}
    ),
    ("POST", "/api/v1/transaction"): Example(body=_transaction, needs=PUSH | POP),
    ("POST", "/streams/v1/queries"): Example(
        needs=POP,
        body=lambda place: {
            "name": place.queue,
            "source_queue": place.queue,
            "config_hash": "2",
            "reset": True,
        },
    ),
    ("POST", "/streams/v1/state/get"): Example(
        needs=POP,
        body=lambda place: {"query_id": place.query_id, "partition_id": place.partition_id},
        writes=False,
    ),
    ("POST", "/streams/v1/cycle"): Example(body=_cycle, needs=PUSH | POP),
    ("POST", "/api/v1/journal/heads"): Example(
        needs=READ, body=lambda place: {"queues": [place.queue]}, writes=False
    ),
    ("POST", "/api/v1/journal/read"): Example(needs=READ, body=_ranges, writes=False),
    ("PUT", "/api/v1/journal/groups/{group}"): Example(
        needs=READ | POP,
        path="/api/v1/journal/groups/audit",
        body=lambda place: {"queues": [place.queue], "start": "earliest"},
    ),
    ("POST", "/api/v1/journal/groups/{group}/position"): Example(
        needs=POP,
        path="/api/v1/journal/groups/{place.queue}/position",
        body=lambda place: {"position": place.position},
    ),
    ("PUT", "/api/v1/pipelines/{id}"): Example(
        needs=POP,
        path="/api/v1/pipelines/{place.queue}",
        body=lambda place: {
            "pipeline": "archive",
            "queues": [place.queue],
            "state": "done",
            "host": "mill",
            "startedAt": "2030-01-01T00:00:00Z",
        },
    ),
    ("GET", "/api/v1/journal/groups/{group}"): Example(
        needs=STATUS, path="/api/v1/journal/groups/{place.queue}", writes=False
    ),
    ("POST", "/api/v1/journal/stage"): Example(
        needs=PUSH,
        path="/api/v1/journal/stage?app=a&version=1&stage=s&chunk=0&queue={place.queue}",
        content=to_stream({"payload": [b"1"]}),
    ),
    ("POST", "/api/v1/journal/commit"): Example(needs=PUSH, body=lambda place: place.staged),
    ("POST", "/api/v1/journal/abort"): Example(needs=PUSH, body=lambda place: place.staged),
    ("DELETE", "/api/v1/journal/apps/{app}"): Example(
        needs=OPERATE, path="/api/v1/journal/apps/{place.queue}-done", about="every queue"
    ),
    ("GET", "/api/v1/journal/apps/{app}"): Example(
        needs=STATUS, path="/api/v1/journal/apps/a", writes=False, about="no queue"
    ),
}
