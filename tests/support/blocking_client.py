"""A blocking client in the clothes of an asynchronous one, so that both take the same tests."""

import asyncio
from collections.abc import Callable
from typing import Any, Self, cast

from skep import AsyncClient, Client, Consumer, Message


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


class LoopInThreads:
    """A blocking consumer that an ``async for`` can go through."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._consumer.__enter__)
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await asyncio.to_thread(self._consumer.__exit__, *raised)

    def __aiter__(self) -> Self:
        iter(self._consumer)
        return self

    async def __anext__(self) -> Message:
        return await asyncio.to_thread(next, self._consumer)


def in_threads(client: Client) -> AsyncClient:
    return cast("AsyncClient", InThreads(client))
