"""What all routes have in common."""

import pytest

from skep.http.access import Permission
from skep.http.routes import all_routes
from skep.http.routing import Route

HEALTH = {"/health", "/health/live", "/health/ready", "/metrics", "/metrics/prometheus"}
ABOUT = {"/openapi.json", "/docs", "/docs.css"}
OF_QUEEN = """
POST /api/v1/configure
DELETE /api/v1/resources/queues/{}
DELETE /api/v1/queues/{}/clear
GET /api/v1/resources/overview
GET /api/v1/resources/namespaces
GET /api/v1/resources/tasks
GET /api/v1/resources/queues
GET /api/v1/resources/queues/{}
GET /api/v1/resources/queues/{}/depth
GET /api/v1/resources/partitions
GET /api/v1/dlq
POST /api/v1/traces
GET /api/v1/traces/by-name/{}
GET /api/v1/traces/names
GET /api/v1/traces/{}/{}
GET /api/v1/messages
GET /api/v1/messages/{}/{}
DELETE /api/v1/messages/{}/{}
POST /api/v1/messages/{}/{}/retry
POST /api/v1/messages/{}/{}/dlq
GET /api/v1/status
GET /api/v1/status/queues
GET /api/v1/status/queues/{}
GET /api/v1/status/queues/{}/messages
GET /api/v1/status/analytics
GET /api/v1/status/buffers
GET /api/v1/consumer-groups
GET /api/v1/consumer-groups/lagging
GET /api/v1/consumer-groups/{}
DELETE /api/v1/consumer-groups/{}
DELETE /api/v1/consumer-groups/{}/queues/{}
POST /api/v1/consumer-groups/{}/subscription
POST /api/v1/consumer-groups/{}/queues/{}/seek
POST /api/v1/consumer-groups/{}/queues/{}/partitions/{}/seek
POST /api/v1/stats/refresh
GET /api/v1/analytics/system-metrics
GET /api/v1/analytics/worker-metrics
GET /api/v1/analytics/postgres-stats
GET /api/v1/analytics/queue-lag
GET /api/v1/analytics/queue-ops
GET /api/v1/analytics/queue-parked-replicas
GET /api/v1/analytics/retention
GET /health
GET /metrics
GET /metrics/prometheus
"""


def shape(route: Route) -> str:
    path = "/".join("{}" if part.startswith("{") else part for part in route.path.split("/"))
    return f"{route.method} {path}"


@pytest.mark.parametrize("asked", OF_QUEEN.split("\n")[1:-1])
def test_what_queens_clients_call_is_there(asked: str) -> None:
    assert asked in {shape(route) for route in all_routes()}


def test_only_health_metrics_and_documentation_are_open_to_everybody() -> None:
    found = {route.path for route in all_routes() if route.needs is Permission.NONE}

    assert found == HEALTH | ABOUT
