"""The real server, in the process of the test."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import skep
from skep import Broker
from skep.http.app import App
from skep.http.auth.authenticator import AllowAll
from skep.http.routes import all_routes
from skep.http.server import Address, HttpServer


def make_app(broker: Broker) -> App:
    return App(broker, all_routes(), authenticator=AllowAll())


class ReadyServer(HttpServer):
    """A server that says when it listens."""

    def __init__(self, broker: Broker, port: int) -> None:
        super().__init__(make_app(broker), broker, Address(port=port))
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


@asynccontextmanager
async def serving(broker: Broker, port: int = 0) -> AsyncIterator[str]:
    """A server on a socket, by default on any free port; gives its URL."""
    server = ReadyServer(broker, port)
    running = asyncio.create_task(server.serve())
    await server.ready.wait()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.should_exit = True
        await running


class Restarting:
    """A server over a directory that can be stopped and started again, at the same address."""

    def __init__(self, path: Path, port: int) -> None:
        self._path = path
        self._port = port
        self._stack = AsyncExitStack()
        self.url = f"http://127.0.0.1:{port}"

    async def start(self) -> Broker:
        broker = await self._stack.enter_async_context(skep.open(self._path))
        await self._stack.enter_async_context(serving(broker, self._port))
        return broker

    async def stop(self) -> None:
        await self._stack.aclose()
