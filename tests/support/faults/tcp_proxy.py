"""The network between a server and its database: slow, torn, deaf, or silent, as told."""

import asyncio
import socket
import struct
from collections.abc import Callable, Iterator
from random import Random
from typing import Self

from tests.support.faults.postgres_cluster import HOST

COMMIT = b"Q\x00\x00\x00\x0bCOMMIT\x00"
"""How the driver says it: a simple query of its own."""
CHUNK = 1 << 16


class Way:
    """One direction. What does not pass is kept, as a network keeps sending what is not heard."""

    def __init__(self) -> None:
        self.delay = 0.0
        self.slice = CHUNK
        self.passes = asyncio.Event()
        self.passes.set()
        self.commits_to_lose = 0
        self.all_lost = asyncio.Event()

    def loses_commit(self) -> bool:
        """Whether a COMMIT, or the answer to it, is to be lost here; asked once for each."""
        if not self.commits_to_lose:
            return False
        self.commits_to_lose -= 1
        if not self.commits_to_lose:
            self.all_lost.set()
        return True


class Wire:
    """Listens in the place of the database, and passes on what it is told."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server: asyncio.Server | None = None
        self._links: list[Link] = []
        self._serving: set[asyncio.Task[None]] = set()
        self.to_database, self.to_server = Way(), Way()
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()
        for link in self._links:
            link.stop()
        await asyncio.gather(*self._serving)

    @property
    def ways(self) -> tuple[Way, Way]:
        return self.to_database, self.to_server

    def reset_one(self, random: Random) -> None:
        """Tear a connection, for both ends."""
        if self._links:
            random.choice(self._links).reset()

    async def lose_commits(self, number: int) -> None:
        """Lose so many COMMITs, and then the answers to as many, each with its connection."""
        for way in self.ways:
            way.commits_to_lose = number
            way.all_lost.clear()
            await way.all_lost.wait()

    def silence(self) -> None:
        """Nothing passes, of the connections there are and of those to come; nobody is told."""
        for way in self.ways:
            way.passes.clear()

    def forget(self) -> None:
        """Let new connections pass. Those from before stay silent for ever, as behind a
        firewall that has forgotten them."""
        for link in self._links:
            link.forgotten = True
        for way in self.ways:
            way.passes.set()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far = await asyncio.open_connection(HOST, self._target)
        except OSError:
            _reset(writer)
            return
        link = Link(self, (reader, writer), far)
        self._links.append(link)
        await link.run()
        self._links.remove(link)


class Link:
    """One connection through the wire."""

    def __init__(
        self,
        wire: Wire,
        near: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        far: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self._wire = wire
        self._near_reader, self._near = near
        self._far_reader, self._far = far
        self._committing = False
        self._tasks: list[asyncio.Task[None]] = []
        self.forgotten = False

    async def run(self) -> None:
        wire = self._wire
        self._tasks = [
            asyncio.create_task(each)
            for each in (
                self._pump(self._near_reader, self._far, wire.to_database, self._ask),
                self._pump(self._far_reader, self._near, wire.to_server, self._answer),
            )
        ]
        await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        self.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.reset()

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    def reset(self) -> None:
        _reset(self._near)
        _reset(self._far)

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        way: Way,
        takes: Callable[[bytes], bool],
    ) -> None:
        while True:
            try:
                data = await reader.read(CHUNK)
            except OSError:
                data = b""
            await self._until_it_passes(way)
            if not data or not takes(data):
                return
            await asyncio.sleep(way.delay)
            for piece in _pieces(data, way.slice):
                writer.write(piece)
                await writer.drain()

    async def _until_it_passes(self, way: Way) -> None:
        await way.passes.wait()
        if self.forgotten:
            await asyncio.Event().wait()

    def _ask(self, data: bytes) -> bool:
        self._committing = data.endswith(COMMIT)
        return not (self._committing and self._wire.to_database.loses_commit())

    def _answer(self, data: bytes) -> bool:
        return not (self._committing and self._wire.to_server.loses_commit())


def _pieces(data: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close at once, with RST rather than FIN."""
    taken: socket.socket | None = writer.get_extra_info("socket")
    if taken is not None and not writer.is_closing():
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
