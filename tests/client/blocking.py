"""A blocking client in the clothes of an asynchronous one, so that both take the same tests."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from skep import AsyncClient, Client


class InThreads:
    """Each method runs in a thread, because the server has the loop of the test."""

    def __init__(self, inner: object) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return in_a_thread(found) if callable(found) else InThreads(found)


def in_a_thread(function: Callable[..., Any]) -> Callable[..., Any]:
    async def call(*args: Any, **named: Any) -> Any:
        return await asyncio.to_thread(function, *args, **named)

    return call


def in_threads(client: Client) -> AsyncClient:
    return cast("AsyncClient", InThreads(client))
