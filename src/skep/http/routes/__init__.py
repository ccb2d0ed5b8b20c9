"""What the door answers, one file per subject."""

from skep.http.routes import (
    ack,
    dead_letters,
    groups,
    messages,
    pop,
    push,
    queues,
    resources,
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
    )
