"""An identity provider that publishes keys, for as long as it is there."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx

URL = "https://id.example/keys"


def response(status: int, headers: dict[str, str], body: AsyncIterator[bytes]) -> httpx.Response:
    return httpx.Response(status, headers=headers, content=body)


async def once(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield b" " * 4096


class Provider(httpx.AsyncBaseTransport):
    """Publishes ``keys``, or answers as it is told; ``fetches`` counts how often it is asked."""

    def __init__(self, *keys: dict[str, Any]) -> None:
        self.keys = list(keys)
        self.fetches = 0
        self.answer: Callable[[httpx.Request], Awaitable[httpx.Response]] | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.fetches += 1
        if self.answer is not None:
            return await self.answer(request)
        return self.publish()

    def publish(self) -> httpx.Response:
        return response(200, {}, once(json.dumps({"keys": self.keys}).encode()))

    def say(self, status: int, headers: dict[str, str], body: AsyncIterator[bytes]) -> None:
        async def answer(request: httpx.Request) -> httpx.Response:
            return response(status, headers, body)

        self.answer = answer

    def be_slow(self) -> asyncio.Event:
        """It answers when the event is set."""
        gate = asyncio.Event()

        async def answer(request: httpx.Request) -> httpx.Response:
            await gate.wait()
            return self.publish()

        self.answer = answer
        return gate

    def be_away(self) -> None:
        async def answer(request: httpx.Request) -> httpx.Response:
            raise httpx.ConnectError("nobody is there")

        self.answer = answer

    def be_back(self) -> None:
        self.answer = None
