"""Queen's public client, unmodified, at real servers: one on RocksDB, two on PostgreSQL."""

import os
import re
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import queen as queen_package
from queen import Queen
from tests.support.postgres_databases import databases
from tests.support.server_process import ServerProcess


@pytest.fixture(scope="session", autouse=True)
def version() -> None:
    """The client is the one that is meant: ``test_version_2`` puts another in its place."""
    assert queen_package.__version__ == os.environ.get("SKEP_TEST_QUEEN", "0.15.0")


@pytest.fixture(scope="session", params=["embedded", "two workers on PostgreSQL"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """Behind one port: requests on one connection reach one worker, on several any of them."""
    place: Path | str = tmp_path_factory.mktemp("queen") / "data"
    options: tuple[str, ...] = ()
    if request.param != "embedded":
        place, options = databases().create(), ("--workers", "2")
    with ServerProcess(place, *options, SKEP_SWEEP_SECONDS="1") as server:
        yield server


@pytest.fixture
async def queen(server: ServerProcess) -> AsyncIterator[Queen]:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    client = Queen(server.url)
    yield client
    await client.close()
    # The client takes the signals for itself and leaves the defaults behind.
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A queue of the test's own."""
    return re.sub(r"\W+", "-", str(request.node.name))[:200]
