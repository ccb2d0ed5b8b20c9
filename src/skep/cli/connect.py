"""The options by which a command finds its server, and the clients that they make."""

from typing import Annotated

import typer

from skep.client.async_client import AsyncClient
from skep.client.retry import Retry
from skep.client.sync_client import Client
from skep.wire.paths import DEFAULT_URL

PATIENCE = Retry(attempts=3)
"""A person who waits would rather hear that there is no server."""

Url = Annotated[str, typer.Option("--url", envvar="SKEP_URL", help="Where the server is.")]
Token = Annotated[
    str | None,
    typer.Option(
        "--token", envvar="SKEP_TOKEN", show_default=False, help="A token or a key for the server."
    ),
]


def connect(url: str, token: str | None, *, timeout: float = 30.0) -> Client:
    return Client(url, token=token or None, timeout=timeout, retry=PATIENCE)


def connect_async(url: str, token: str | None) -> AsyncClient:
    return AsyncClient(url, token=token or None, retry=PATIENCE)


__all__ = ["DEFAULT_URL", "Token", "Url", "connect", "connect_async"]
