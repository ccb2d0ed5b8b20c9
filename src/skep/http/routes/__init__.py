"""The routes of the API, one file per resource."""

from pathlib import Path

from skep.http.routes import (
    ack,
    analytics,
    backup,
    dead_letters,
    docs,
    groups,
    health,
    journal,
    maintenance,
    messages,
    pipelines,
    pop,
    push,
    queues,
    resources,
    sink,
    status,
    stream_query,
    traces,
    transaction,
)
from skep.http.routing import Route


def all_routes(*, backup_directory: Path | None = None) -> tuple[Route, ...]:
    """Every route, and those of the documentation."""
    routes = (
        *push.ROUTES,
        *pop.ROUTES,
        *ack.ROUTES,
        *transaction.ROUTES,
        *stream_query.ROUTES,
        *sink.ROUTES,
        *maintenance.ROUTES,
        backup.backup_route(backup_directory),
        *queues.ROUTES,
        *resources.ROUTES,
        *groups.ROUTES,
        *dead_letters.ROUTES,
        *messages.ROUTES,
        *journal.ROUTES,
        *pipelines.ROUTES,
        *traces.ROUTES,
        *status.ROUTES,
        *analytics.ROUTES,
        *health.ROUTES,
    )
    return (*routes, *docs.docs_routes(routes))
