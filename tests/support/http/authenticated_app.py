"""A door that asks who it is, and clients that say so."""

from collections.abc import Sequence
from typing import Any

import httpx

from skep import Broker
from skep.http.app import App
from skep.http.auth.authenticator import build_authenticator
from skep.http.routes import all_routes
from skep.http.routing import Route
from skep.settings import Settings
from skep.testing.clock import ManualClock
from tests.support.http.token_signing import SECRET, seconds


def make_app(
    broker: Broker,
    clock: ManualClock,
    *,
    routes: Sequence[Route] | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
    **settings: Any,
) -> App:
    """A door that takes tokens signed with the tests' secret, unless ``settings`` say otherwise."""
    authenticator = build_authenticator(
        Settings(**settings or {"jwt_secret": SECRET}),
        transport=transport,
        now=lambda: seconds(clock),
    )
    return App(broker, all_routes() if routes is None else routes, authenticator=authenticator)


def knock(app: App, **headers: str) -> httpx.AsyncClient:
    """A client that sends these headers; ``_`` in their names stands for ``-``."""
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app),
        base_url="http://skep.test",
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )
