"""One server for all tests of commands; each test has a queue of its own."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.support.cli_shell import Shell
from tests.support.server_process import ServerProcess


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    backups = tmp_path_factory.mktemp("backups")
    store = tmp_path_factory.mktemp("server") / "data"
    with ServerProcess(store, SKEP_BACKUP_DIRECTORY=str(backups)) as server:
        yield server


@pytest.fixture
def shell(server: ServerProcess) -> Shell:
    return Shell(server.url)


@pytest.fixture
def queue() -> str:
    return f"orders-{uuid4().hex[:8]}"
