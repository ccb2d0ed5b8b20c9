"""What the door answers, one file per subject."""

from skep.http.routes import (
    ack,
    analytics,
    dead_letters,
    groups,
    health,
    messages,
    pop,
    push,
    queues,
    resources,
    status,
    traces,
    transaction,
)
from skep.http.routing import Route


def all_routes() -> tuple[Route, ...]:
    return (
        *push.ROUTES,
        *pop.ROUTES,
        *ack.ROUTES,
        *transaction.ROUTES,
        *queues.ROUTES,
        *resources.ROUTES,
        *groups.ROUTES,
        *dead_letters.ROUTES,
        *messages.ROUTES,
        *traces.ROUTES,
        *status.ROUTES,
        *analytics.ROUTES,
        *health.ROUTES,
    )
