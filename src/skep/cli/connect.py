"""The options of the connection to a server, and clients made from them."""

from typing import Annotated

import typer

from skep.client.async_client import AsyncClient
from skep.client.retry import Retry
from skep.client.sync_client import Client
from skep.wire.paths import DEFAULT_URL

RETRY = Retry(attempts=3)
"""Fewer attempts than the default: a person waits for the error."""

Url = Annotated[str, typer.Option("--url", envvar="SKEP_URL", help="URL of the server.")]
Token = Annotated[
    str | None,
    typer.Option("--token", envvar="SKEP_TOKEN", show_default=False, help="Token or API key."),
]


def connect(url: str, token: str | None, *, timeout: float = 30.0) -> Client:
    return Client(url, token=token or None, timeout=timeout, retry=RETRY)


def connect_async(url: str, token: str | None) -> AsyncClient:
    return AsyncClient(url, token=token or None, retry=RETRY)


__all__ = ["DEFAULT_URL", "Token", "Url", "connect", "connect_async"]
