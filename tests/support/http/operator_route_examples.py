"""A call of every route for who looks at queues and looks after them."""

from dataclasses import replace
from typing import Any

from tests.support.http.access_example import (
    ADMIN,
    NOTHING,
    OPERATE,
    POP,
    READ,
    STATUS,
    TRACE_ID,
    About,
    Calls,
    Example,
    Permissions,
)

_MESSAGE = "/api/v1/messages/{partitionId}/{transactionId}"
_GROUP = "/api/v1/consumer-groups/{group}"
_USED = {
    "{queue}": "{place.queue}",
    "{partitionId}": "{place.partition_id}",
    "{transactionId}": "{place.transaction_id}",
    "{number}": "{place.letter}",
    "{id}": "{place.queue}",
    "{group}": "late",
    "{partition}": "Default",
    "{name}": "checkout",
    "{traceId}": str(TRACE_ID),
}
"""What the parameters in a path are in a call."""


def _call(path: str, query: str = "") -> str:
    for name, value in _USED.items():
        path = path.replace(name, value)
    return path + query


def _look(needs: Permissions, path: str, query: str = "", about: About = "one queue") -> Calls:
    return {("GET", path): Example(needs=needs, path=_call(path, query), writes=False, about=about)}


def _list(needs: Permissions, path: str, query: str = "") -> Calls:
    return _look(needs, path, query, "what he sees")


def _page(needs: Permissions, path: str) -> Calls:
    return _look(needs, path, about="no queue")


def _post(needs: Permissions, path: str, body: dict[str, Any], about: About = "one queue") -> Calls:
    return {
        ("POST", path): Example(needs=needs, path=_call(path), body=lambda place: body, about=about)
    }


def _delete(needs: Permissions, path: str, query: str = "", about: About = "one queue") -> Calls:
    return {("DELETE", path): Example(needs=needs, path=_call(path, query), about=about)}


_QUEUES: Calls = {
    ("POST", "/api/v1/configure"): Example(
        needs=OPERATE, body=lambda place: {"queue": place.queue}
    ),
    **_delete(ADMIN, "/api/v1/resources/queues/{queue}"),
    **_delete(ADMIN, "/api/v1/queues/{queue}/clear"),
    **_look(STATUS, "/api/v1/queues/{queue}/removals"),
    **_list(STATUS, "/api/v1/resources/overview"),
    **_list(STATUS, "/api/v1/resources/namespaces"),
    **_list(STATUS, "/api/v1/resources/tasks"),
    **_list(STATUS, "/api/v1/resources/queues"),
    **_look(STATUS, "/api/v1/resources/queues/{queue}"),
    **_look(STATUS, "/api/v1/resources/queues/{queue}/depth", "?group=late"),
    **_list(STATUS, "/api/v1/status/queues"),
    **_look(STATUS, "/api/v1/status/queues/{queue}"),
    **_look(STATUS, "/api/v1/status/queues/{queue}/messages"),
    **_list(STATUS, "/api/v1/analytics/queue-parked-replicas"),
}

_MESSAGES: Calls = {
    **_look(READ, _MESSAGE),
    **_delete(OPERATE, _MESSAGE),
    **_post(OPERATE, f"{_MESSAGE}/dlq", {"consumerGroup": "late"}),
    ("POST", f"{_MESSAGE}/retry"): Example(
        needs=OPERATE, path="/api/v1/messages/{place.partition_id}/{place.given_up}/retry"
    ),
    **_look(READ, "/api/v1/dlq/{queue}/{number}"),
    **_post(OPERATE, "/api/v1/dlq/{queue}/replay", {"all": True}),
    **_delete(ADMIN, "/api/v1/dlq/{queue}", "?all=true"),
    ("POST", "/api/v1/traces"): Example(
        needs=POP,
        body=lambda place: {
            "transactionId": place.transaction_id,
            "partitionId": place.partition_id,
            "data": 1,
        },
    ),
    **_list(STATUS, "/api/v1/traces/names"),
    **_list(READ, "/api/v1/traces/by-name/{name}"),
    **_list(READ, "/api/v1/traces/id/{traceId}"),
    **_look(READ, "/api/v1/traces/{partitionId}/{transactionId}"),
}

_GROUPS: Calls = {
    **_list(STATUS, "/api/v1/consumer-groups"),
    **_list(STATUS, "/api/v1/consumer-groups/lagging", "?minLagSeconds=0"),
    **_list(STATUS, _GROUP),
    **_delete(ADMIN, _GROUP, about="what he sees"),
    **_delete(ADMIN, f"{_GROUP}/queues/{{queue}}"),
    **_post(
        OPERATE,
        f"{_GROUP}/subscription",
        {"subscriptionTimestamp": "2030-01-01T00:00:00Z"},
        "what he sees",
    ),
    **_post(OPERATE, f"{_GROUP}/queues/{{queue}}/seek", {"toEnd": True}),
    **_post(OPERATE, f"{_GROUP}/queues/{{queue}}/partitions/{{partition}}/seek", {"toEnd": True}),
}

_PIPELINES: Calls = {
    **_list(STATUS, "/api/v1/pipelines"),
    **_look(STATUS, "/api/v1/pipelines/{id}"),
    **_delete(ADMIN, "/api/v1/pipelines/{id}"),
}

_SERVER: Calls = {
    **_page(ADMIN, "/api/v1/system/maintenance"),
    **_page(ADMIN, "/api/v1/system/maintenance/pop"),
    **_page(ADMIN, "/api/v1/system/shared-state"),
    **_post(ADMIN, "/api/v1/system/maintenance", {"enabled": True}, "every queue"),
    **_post(ADMIN, "/api/v1/system/maintenance/pop", {"enabled": True}, "every queue"),
    # A store in memory has nothing to back up, and a server is not told where.
    ("POST", "/api/v1/system/backup"): Example(
        needs=ADMIN,
        body=lambda place: {"path": "today"},
        about="every queue",
        writes=False,
        status=409,
    ),
    ("POST", "/api/v1/stats/refresh"): Example(needs=ADMIN, writes=False, about="what he sees"),
    **_page(STATUS, "/api/v1/status/buffers"),
    **_page(STATUS, "/api/v1/analytics/postgres-stats"),
    **_page(NOTHING, "/health"),
    **_page(NOTHING, "/health/live"),
    **_page(NOTHING, "/health/ready"),
    **_page(NOTHING, "/metrics"),
    **_list(NOTHING, "/metrics/prometheus"),
    **_page(NOTHING, "/openapi.json"),
    **_page(NOTHING, "/docs"),
    **_page(NOTHING, "/docs.css"),
}

WITHOUT_QUEUE: Calls = {
    **_list(STATUS, "/api/v1/resources/partitions"),
    **_list(STATUS, "/api/v1/dlq"),
    **_list(STATUS, "/api/v1/messages"),
    **_list(STATUS, "/api/v1/status"),
    **_list(STATUS, "/api/v1/status/analytics"),
    **_page(STATUS, "/api/v1/analytics/system-metrics"),
    **_list(STATUS, "/api/v1/analytics/worker-metrics"),
    **_list(STATUS, "/api/v1/analytics/queue-ops"),
    **_list(STATUS, "/api/v1/analytics/queue-lag"),
    **_list(STATUS, "/api/v1/analytics/latencies"),
    **_list(STATUS, "/api/v1/analytics/retention"),
}
"""The routes that need not be told a queue, when they are not."""
_WITH_QUEUE: Calls = {
    key: replace(example, path=f"{example.path}?queue={{place.queue}}", about="one queue")
    for key, example in WITHOUT_QUEUE.items()
}

OF_OPERATORS: Calls = {**_QUEUES, **_MESSAGES, **_GROUPS, **_PIPELINES, **_SERVER, **_WITH_QUEUE}
