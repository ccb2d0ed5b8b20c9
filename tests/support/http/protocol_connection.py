"""One connection to the protocol of the server, both ends in the hands of the test."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import uvicorn
from uvicorn._types import ASGI3Application
from uvicorn.server import ServerState

from skep.http.body_budget import BodyBudget
from skep.http.limits import HttpLimits
from skep.http.rejection import RejectionLog
from skep.http.uvicorn_protocol import LimitedProtocol
from tests.support.broker_builders import turn

PATIENCE = 10


class Connection:
    def __init__(self, client: socket.socket, protocol: LimitedProtocol) -> None:
        self._client = client
        self._loop = asyncio.get_running_loop()
        self.protocol = protocol

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._client, data)

    async def read(self, size: int) -> bytes:
        """So many bytes, or all that come until the server closes the connection."""
        data = bytearray()
        while len(data) < size:
            some = await self._loop.sock_recv(self._client, min(1 << 16, size - len(data)))
            if not some:
                break
            data += some
        return bytes(data)

    async def read_until(self, end: bytes) -> bytes:
        data = b""
        while end not in data:
            some = await self._loop.sock_recv(self._client, 1 << 16)
            assert some, data
            data += some
        return data

    def close(self) -> None:
        self._client.close()

    @property
    def unread(self) -> int:
        """Bytes that the server has not been able to send."""
        return self.protocol.transport.get_write_buffer_size()

    @property
    def is_open(self) -> bool:
        """Whether the server has not closed its end, or lost it."""
        return not self.protocol.transport.is_closing()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await turn()


@asynccontextmanager
async def connect(
    app: ASGI3Application, *, limits: HttpLimits | None = None, budget: BodyBudget | None = None
) -> AsyncIterator[Connection]:
    attributes = {
        "limits": limits or HttpLimits(),
        "budget": budget or BodyBudget(HttpLimits().unfinished_bytes),
        "rejections": RejectionLog(),
    }
    config = uvicorn.Config(app, lifespan="off", log_config=None, ws="none")
    protocol = type("LimitedProtocol", (LimitedProtocol,), attributes)(
        config=config, server_state=ServerState(), app_state={}
    )
    client, served = socket.socketpair()
    client.setblocking(False)
    transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
        lambda: protocol, sock=served
    )
    try:
        yield Connection(client, protocol)
    finally:
        client.close()
        transport.abort()
