"""``skep maintenance``, on a server of its own: it is for all queues."""

from collections.abc import Iterator

import pytest

from tests.support.cli_shell import Shell
from tests.support.server_process import ServerProcess


@pytest.fixture
def alone() -> Iterator[Shell]:
    with ServerProcess("memory://") as server:
        yield Shell(server.url)


def test_pushes_are_buffered_and_delivered(alone: Shell) -> None:
    begun = alone.json("maintenance", "push", "on")
    pushed = alone.json("push", "orders", "1")
    shown = alone.run("maintenance", "show").stdout
    alone.run("maintenance", "push", "off")

    assert begun == {"pushing": True, "popping": False, "buffered": 0}
    assert pushed["buffered"] == 1
    assert shown == "pushes: buffered, pops: served, buffered messages: 1\n"
    assert alone.json("pop", "orders", "--wait", "30")["messages"][0]["payload"] == 1


def test_pops_find_nothing_until_it_ends(alone: Shell) -> None:
    alone.run("push", "orders", "1")

    alone.run("maintenance", "pop", "on")
    alone.said("pop", "orders", expect=4)
    alone.run("maintenance", "pop", "off")

    assert alone.json("pop", "orders")["messages"]


def test_anything_but_on_and_off_is_wrong_usage(alone: Shell) -> None:
    assert "perhaps" in alone.misused("maintenance", "pop", "perhaps")
