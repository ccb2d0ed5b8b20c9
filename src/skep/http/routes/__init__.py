"""What the door answers, one file per subject."""

from skep.http.routes import ack, pop, push, streams, system, transaction
from skep.http.routing import Route


def all_routes() -> tuple[Route, ...]:
    return (
        *push.ROUTES,
        *pop.ROUTES,
        *ack.ROUTES,
        *transaction.ROUTES,
        *streams.ROUTES,
        *system.ROUTES,
    )
