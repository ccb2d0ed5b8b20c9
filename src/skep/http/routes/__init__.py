"""What the door answers, one file per subject."""

from pathlib import Path

from skep.http.routes import (
    ack,
    analytics,
    backup,
    dead_letters,
    docs as about,
    groups,
    health,
    journal,
    maintenance as system,
    messages,
    pipelines,
    pop,
    push,
    queues,
    resources,
    sink as staging,
    status,
    stream_query as streams,
    traces,
    transaction,
)
from skep.http.routing import Route


def all_routes(*, backup_directory: Path | None = None) -> tuple[Route, ...]:
    """Everything that the door can do, and the pages that describe it."""
    routes = (
        *push.ROUTES,
        *pop.ROUTES,
        *ack.ROUTES,
        *transaction.ROUTES,
        *streams.ROUTES,
        *staging.ROUTES,
        *system.ROUTES,
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
    return (*routes, *about.about_routes(routes))
