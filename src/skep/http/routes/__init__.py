"""What the door answers, one file per subject."""

from skep.http.routes import about, ack, pop, push, streams, system, transaction
from skep.http.routing import Route


def all_routes() -> tuple[Route, ...]:
    """Everything that the door can do, and the pages that describe it."""
    routes = (
        *push.ROUTES,
        *pop.ROUTES,
        *ack.ROUTES,
        *transaction.ROUTES,
        *streams.ROUTES,
        *system.ROUTES,
    )
    return (*routes, *about.about_routes(routes))
