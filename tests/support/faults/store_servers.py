"""Servers over each kind of store: one over a directory, two that share a database.

``workers`` are two, too, on one port.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from skep import AsyncClient
from skep.client.retry import Retry
from tests.support.postgres_databases import databases
from tests.support.server_process import ServerProcess

KINDS = ("rocksdb", "postgres")
ONCE = Retry(attempts=1)


@contextmanager
def start_servers(kind: str, path: Path) -> Iterator[list[ServerProcess]]:
    """All the servers that a store of this kind can have, up to two."""
    with ExitStack() as stack:
        if kind == "rocksdb":
            yield [stack.enter_context(ServerProcess(path / "data"))]
            return
        url = databases().empty()
        if kind == "workers":
            yield [stack.enter_context(ServerProcess(url, "--workers", "2"))]
            return
        yield [stack.enter_context(ServerProcess(url)) for _ in range(2)]


@asynccontextmanager
async def clients_of(
    servers: list[ServerProcess], retry: Retry = ONCE
) -> AsyncIterator[list[AsyncClient]]:
    """A client of each, to hop between them."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(AsyncClient(server.url, retry=retry))
            for server in servers
        ]
