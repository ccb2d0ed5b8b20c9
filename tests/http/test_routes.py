"""What all routes have in common."""

import msgspec
import pytest

from skep.http.auth.principal import Permission
from skep.http.openapi import document
from skep.http.routes import all_routes
from skep.http.routing import Route
from skep.wire import paths
from tests.support.http.json_client import Client, somebody

PAGES = {"/metrics/prometheus", "/openapi.json", "/docs", "/docs.css"}
"""What is not described as JSON is."""
OPEN = {"/health", "/health/live", "/health/ready", "/metrics", *PAGES}
IN_SNAKE_CASE = {
    *("Pushed", "Extended", "LaggingRow", "HealthResponse"),
    *("WireEvent", "NamedEvent", "TraceNameRow", "TraceNamesResponse"),
    *("RegisterBody", "Registered", "StateBody", "StateRow"),
    *("CycleBody", "CycleResponse", "CycleAckResult"),
}
"""Bodies with a field that Queen's clients send or read under such a name."""
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


def name(route: Route) -> str:
    return f"{route.method} {route.path}"


def shape(route: Route) -> str:
    path = "/".join("{}" if part.startswith("{") else part for part in route.path.split("/"))
    return f"{route.method} {path}"


def test_every_route_is_there_once() -> None:
    shapes = [shape(route) for route in all_routes()]

    assert sorted(shapes) == sorted(set(shapes))


@pytest.mark.parametrize("asked", OF_QUEEN.split("\n")[1:-1])
def test_what_queens_clients_call_is_there(asked: str) -> None:
    assert asked in {shape(route) for route in all_routes()}


def test_only_health_metrics_and_documentation_are_open_to_everybody() -> None:
    found = {route.path for route in all_routes() if route.needs is Permission.NONE}

    assert found == OPEN


@pytest.mark.parametrize("route", all_routes(), ids=name)
def test_a_route_says_what_it_does_and_gives(route: Route) -> None:
    assert route.summary.endswith(".")
    answers = route.response if isinstance(route.response, tuple) else (route.response,)
    # What cannot be described here could not be documented either.
    msgspec.json.schema_components([kind for kind in (route.query, *answers) if kind is not None])
    assert (route.response is None) == (route.path in PAGES or route.status == 204)


def test_bodies_are_in_camel_case_unless_queens_clients_have_them_otherwise() -> None:
    described = document(all_routes(), version="1")
    operations = [each for path in described["paths"].values() for each in path.values()]

    parameters = {each["name"] for one in operations for each in one.get("parameters", ())}
    in_snake_case = {
        kind
        for kind, schema in described["components"]["schemas"].items()
        if any("_" in field for field in schema.get("properties", ()))
    }

    assert not any("_" in name for name in parameters)
    assert in_snake_case == IN_SNAKE_CASE


@pytest.mark.parametrize("route", all_routes(), ids=name)
async def test_a_route_is_closed_to_who_may_nothing(client: Client, route: Route) -> None:
    if route.needs is Permission.NONE:
        return
    client.badge.principal = somebody()
    path = "/".join("x" if part.startswith("{") else part for part in route.path.split("/"))

    problem = await client.ask(route.method, path, 403)

    assert problem["type"] == "Forbidden"


def test_every_path_is_a_template_of_the_wire() -> None:
    templates = {value for name, value in vars(paths).items() if name.isupper()}

    assert {route.path for route in all_routes()} <= templates


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (paths.pop(None, None), "/api/v1/pop"),
        (paths.pop("a/b", None), "/api/v1/pop/queue/a%2Fb"),
        (paths.pop("..", "{queue}"), "/api/v1/pop/queue/%2E%2E/partition/%7Bqueue%7D"),
        (paths.settle("l1"), "/api/v1/lease/l1/settle"),
        (paths.dead_letter("orders", 7), "/api/v1/dlq/orders/7"),
        (paths.seek("g", "q", "p"), "/api/v1/consumer-groups/g/queues/q/partitions/p/seek"),
    ],
)
def test_a_path_is_its_template_with_quoted_names(path: str, expected: str) -> None:
    assert path == expected
