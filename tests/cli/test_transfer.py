"""``skep transfer``: from one store to another."""

from pathlib import Path

import pytest

from tests.support.cli_shell import Shell
from tests.support.postgres_databases import databases
from tests.support.server_process import ServerProcess


@pytest.fixture
def local() -> Shell:
    """For commands that need no server."""
    return Shell("http://127.0.0.1:1")


@pytest.fixture
def data(tmp_path: Path) -> str:
    """A directory that a server has left, with messages in two queues."""
    path = tmp_path / "data"
    with ServerProcess(path) as server:
        shell = Shell(server.url)
        for queue in "orders", "orders", "mails":
            shell.run("push", queue, '{"n": 1}')
        lease = shell.json("pop", "orders")["leaseId"]
        shell.run("ack", lease)
    return str(path)


@pytest.fixture
def database() -> str:
    return databases().create()


def test_queues_go_to_postgresql_and_consumers_go_on_there(
    local: Shell, data: str, database: str
) -> None:
    said = local.run("transfer", data, database).stdout

    assert "2 queues with 3 messages and 0 dead letters; message ids are unchanged" in said
    assert "start the servers on the target" in said
    with ServerProcess(database) as server:
        (message,) = Shell(server.url).json("pop", "orders")["messages"]
    assert message["offset"] == 1


def test_they_come_back_into_a_directory(
    local: Shell, data: str, database: str, tmp_path: Path
) -> None:
    local.run("transfer", data, database)

    back = local.json("transfer", database, str(tmp_path / "back"), "--queue", "mails")

    assert back == {"queues": 1, "messages": 1, "deadLetters": 0, "idsKept": True}


def test_a_queue_that_the_target_has_is_refused(
    local: Shell, data: str, database: str, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    with ServerProcess(other) as server:
        Shell(server.url).run("push", "mails", "1")
    local.run("transfer", str(other), database)

    said = local.said("transfer", data, database, expect=1)

    assert "already has a queue 'mails'; nothing was copied" in said


def test_a_server_that_runs_is_in_the_way(
    local: Shell, data: str, database: str, tmp_path: Path
) -> None:
    with ServerProcess(tmp_path / "busy"):
        locked = local.said("transfer", data, str(tmp_path / "busy"), expect=3)
    with ServerProcess(database):
        shared = local.said("transfer", data, database, expect=1)

    assert "process" in locked
    assert "stop the servers first" in shared


def test_a_source_that_is_not_there_is_not_made(local: Shell, tmp_path: Path) -> None:
    for url in str(tmp_path / "typo"), f"rocksdb://{tmp_path}/typo":
        said = local.said("transfer", url, str(tmp_path / "new"), expect=1)

        assert "does not hold a store" in said
        assert not (tmp_path / "typo").exists()
        assert not (tmp_path / "new").exists()


def test_a_queue_that_is_not_there_is_not_found(local: Shell, data: str, tmp_path: Path) -> None:
    local.said("transfer", data, str(tmp_path / "new"), "--queue", "nothing", expect=4)


def test_memory_cannot_be_moved(local: Shell, data: str) -> None:
    assert "ends with its process" in local.said("transfer", data, "memory://", expect=1)
