"""``skep migrate``: the schema, before a server starts."""

import pytest

from skep.store.postgres.migrate import MIGRATIONS
from tests.support.cli_shell import Shell
from tests.support.postgres_databases import databases


@pytest.fixture
def local() -> Shell:
    """For commands that need no server."""
    return Shell("http://127.0.0.1:1")


@pytest.fixture
def store() -> str:
    return databases().create()


def test_up_applies_what_is_pending_and_says_so_when_there_is_nothing(
    local: Shell, store: str
) -> None:
    first = local.run("migrate", "up", "--store", store).stdout
    second = local.run("migrate", "up", "--store", store).stdout

    assert first.splitlines() == [f"applied {m.number:04} {m.name}" for m in MIGRATIONS]
    assert second == "no pending migrations\n"


def test_status_says_what_was_applied(local: Shell, store: str) -> None:
    before = local.json("migrate", "status", "--store", store)
    local.run("migrate", "up", "--store", store)
    after = local.json("migrate", "status", "--store", store)

    assert [each["applied_at"] for each in before] == [None] * len(MIGRATIONS)
    assert all(each["applied_at"] for each in after)
    assert MIGRATIONS[0].name in local.run("migrate", "status", "--store", store).stdout


def test_print_writes_the_sql(local: Shell) -> None:
    assert "CREATE TABLE queen.segment" in local.run("migrate", "print").stdout


def test_another_store_has_no_migrations(local: Shell) -> None:
    assert "postgresql://" in local.said("migrate", "up", "--store", "data", expect=1)


def test_a_database_that_does_not_answer_is_unavailable(local: Shell) -> None:
    nowhere = "postgresql://nobody@127.0.0.1:1/nowhere"

    assert "no connection" in local.said("migrate", "status", "--store", nowhere, expect=3)
