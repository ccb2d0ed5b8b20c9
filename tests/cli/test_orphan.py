"""``skep orphan``: rows in PostgreSQL whose queue does not exist."""

import pytest

from tests.postgres.test_orphan import fill, start
from tests.support.cli_shell import Shell
from tests.support.postgres_databases import databases

LOSE = """
ALTER TABLE queen.queue DISABLE TRIGGER USER;
DELETE FROM queen.queue WHERE name = 'lost';
ALTER TABLE queen.queue ENABLE TRIGGER USER;
"""


@pytest.fixture
def local() -> Shell:
    """For commands that need no server."""
    return Shell("http://127.0.0.1:1")


@pytest.fixture
def store() -> str:
    """Two queues, one of which a restore has lost."""
    url = databases().empty()
    databases().run(fill(url, "lost", "kept"))
    databases().execute(url, LOSE)
    return url


def test_list_shows_what_queues_that_do_not_exist_hold(local: Shell, store: str) -> None:
    (found,) = local.json("orphan", "list", "--store", store)
    table = local.run("orphan", "list", "--store", store).stdout

    assert (found["partitions"], found["segments"], found["messages"]) == (1, 1, 1)
    assert found["bytes"] > 0
    assert str(found["queue"]) in table


def test_discard_asks_first(local: Shell, store: str) -> None:
    before = local.json("orphan", "list", "--store", store)

    refused = local.run("orphan", "discard", "--store", store, expect=1, answer="n\n")

    assert "Permanently delete 1 messages of 1 queues?" in refused.stderr
    assert local.json("orphan", "list", "--store", store) == before


def test_after_discard_a_server_starts_and_has_the_rest(local: Shell, store: str) -> None:
    (found,) = local.json("orphan", "list", "--store", store)

    done = local.json("orphan", "discard", "--store", store, "--yes")
    databases().run(start(store))

    assert done == {"queues": [found["queue"]]}
    assert local.json("orphan", "list", "--store", store) == []
    assert local.json("orphan", "discard", "--store", store) == {"queues": []}


def test_only_postgresql_has_them(local: Shell) -> None:
    said = local.said("orphan", "list", "--store", "data", expect=1)

    assert "must be a PostgreSQL URL" in said
