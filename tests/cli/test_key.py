"""``skep key``: a file of keys, and a server that reads it."""

import json
from pathlib import Path

import pytest

from tests.support.cli_shell import Shell
from tests.support.server_process import ServerProcess


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "keys.json")


@pytest.fixture
def local() -> Shell:
    """For commands that need no server."""
    return Shell("http://127.0.0.1:1")


def test_a_key_opens_the_door_of_a_server(local: Shell, tmp_path: Path, file: str) -> None:
    key = local.run("key", "create", "--file", file, "--role", "producer").stdout.strip()
    with ServerProcess(tmp_path / "data", "--api-keys", file) as server:
        with_key = Shell(server.url, SKEP_TOKEN=key)

        stored = with_key.json("push", "orders", "1")["stored"]
        without = Shell(server.url).said("push", "orders", "1", expect=1)
        forbidden = with_key.said("pop", "orders", expect=1)

    assert stored == 1
    assert "--token" in without
    assert "permission" in forbidden
    assert key not in forbidden


def test_keys_are_listed_without_their_secrets(local: Shell, file: str) -> None:
    made = local.json(
        *("key", "create", "--file", file, "--role", "reader", "--role", "consumer"),
        *("--queue", "mail-*", "--subject", "billing", "--expires", "2031-01-01"),
        *("--quota", "partitions=100"),
    )

    (listed,) = local.json("key", "list", "--file", file)
    table = local.run("key", "list", "--file", file).stdout

    assert listed == {
        "id": made["id"],
        "roles": ["reader", "consumer"],
        "queues": ["mail-*"],
        "subject": "billing",
        "principal": made["id"],
        "quota": {"partitions": 100},
        "expiresAt": "2031-01-01T00:00:00Z",
    }
    assert "reader, consumer" in table
    assert made["key"].rpartition("_")[2] not in table + Path(file).read_text()


def test_a_key_that_replaces_another_is_the_same_principal(local: Shell, file: str) -> None:
    create = ("key", "create", "--file", file, "--role", "producer")
    first = local.json(*create)
    second = local.json(*create, "--replaces", first["id"])
    third = local.json(*create, "--replaces", second["id"])

    listed = local.json("key", "list", "--file", file)

    assert [each["id"] for each in listed] == [each["id"] for each in (first, second, third)]
    assert {each["principal"] for each in listed} == {first["id"]}
    assert "API key 'other' does not exist" in local.said(*create, "--replaces", "other", expect=4)


def test_a_key_that_is_revoked_is_gone(local: Shell, file: str) -> None:
    made = local.json("key", "create", "--file", file, "--role", "admin")

    local.run("key", "revoke", made["id"], "--file", file)

    assert json.loads(Path(file).read_text()) == []


def test_a_key_that_is_not_there_cannot_be_revoked(local: Shell, file: str) -> None:
    local.run("key", "create", "--file", file, "--role", "admin")

    assert "does not exist" in local.said("key", "revoke", "abc", "--file", file, expect=4)


def test_a_role_that_is_none_is_refused(local: Shell, file: str) -> None:
    said = local.said("key", "create", "--file", file, "--role", "king", expect=1)

    assert "king" in said
    assert not Path(file).exists()


def test_a_file_must_be_named(local: Shell) -> None:
    assert "--file" in local.misused("key", "list")
