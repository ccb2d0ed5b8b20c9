"""The real server, in the process of the test."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import skep
from skep import Broker
from skep.http.app import App
from skep.http.auth import OpenDoor
from skep.http.routes import ack, pop, push, system, transaction
from skep.http.server import Address, Server

ROUTES = (*push.ROUTES, *pop.ROUTES, *ack.ROUTES, *transaction.ROUTES, *system.ROUTES)


def make_app(broker: Broker) -> App:
    return App(broker, ROUTES, authenticator=OpenDoor())


class ReadyServer(Server):
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


@contextmanager
def serving_in_a_thread() -> Iterator[str]:
    """A server with an event loop of its own, for callers that block."""
    urls: list[str] = []
    started, ended = threading.Event(), threading.Event()

    async def serve() -> None:
        async with skep.open("memory://") as broker, serving(broker) as url:
            urls.append(url)
            started.set()
            await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert started.wait(10)
    try:
        yield urls[0]
    finally:
        ended.set()
        thread.join()
