"""Queen's public client, unmodified, at a real server on RocksDB."""

import os
import re
import signal
from collections.abc import AsyncIterator, Iterator

import pytest

import queen as queen_package
from queen import Queen
from tests.serving import ServerProcess


@pytest.fixture(scope="session", autouse=True)
def version() -> None:
    """The client is the one that is meant: ``test_version_2`` puts another in its place."""
    assert queen_package.__version__ == os.environ.get("SKEP_TEST_QUEEN", "0.15.0")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("queen") / "data", SKEP_SWEEP_SECONDS="1") as server:
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
