"""``skep group``."""

import httpx
import pytest

from tests.support.cli_shell import Shell


@pytest.fixture
def read(shell: Shell, queue: str) -> str:
    """A queue of two messages, of which the group ``billing`` has read one."""
    shell.run("push", queue, "0")
    shell.run("push", queue, "1")
    shell.run("pop", queue, "--group", "billing", "--auto-ack")
    return queue


def cursor(shell: Shell, queue: str) -> int:
    (partition,) = shell.json("group", "lag", queue, "billing")
    found: int = partition["cursor"]
    return found


def test_groups_are_listed_with_their_backlog(shell: Shell, read: str) -> None:
    (listed,) = shell.json("group", "list", "--queue", read)

    assert (listed["group"], listed["backlog"]) == ("billing", 1)
    assert read in shell.run("group", "list").stdout


def test_a_group_that_reads_as_a_stream_is_behind_in_no_partition(shell: Shell, read: str) -> None:
    url = shell.environment["SKEP_URL"]
    told = {"queues": [read], "start": "earliest"}
    httpx.put(f"{url}/api/v1/journal/groups/stream-{read}", json=told).raise_for_status()

    rows = [
        line.split() for line in shell.run("group", "list", "--queue", read).stdout.splitlines()
    ]
    behind = {row[1]: row[2:4] for row in rows}

    assert behind["billing"] == ["1", "1"]
    assert behind[f"stream-{read}"] == ["2", "-"]


def test_a_group_is_shown_by_partition(shell: Shell, read: str) -> None:
    assert cursor(shell, read) == 1
    assert "Default" in shell.run("group", "lag", read, "billing").stdout


@pytest.mark.parametrize(
    ("to", "expected"), [("beginning", 0), ("end", 2), ("1", 1), ("2020-01-01", 0)]
)
def test_a_group_is_moved(shell: Shell, read: str, to: str, expected: int) -> None:
    moved = shell.json("group", "seek", read, "billing", "--to", to)

    assert moved == {"partitions": 1}
    assert cursor(shell, read) == expected


def test_a_group_is_moved_in_one_partition(shell: Shell, read: str) -> None:
    shell.run("group", "seek", read, "billing", "--to", "end", "--partition", "Default")

    assert cursor(shell, read) == 2


def test_a_group_goes_back_to_where_it_started(shell: Shell, read: str) -> None:
    moved = shell.run("group", "restart", read, "billing").stdout

    assert moved == "moved in 1 partition\n"
    assert cursor(shell, read) == 0


def test_groups_of_a_queue_that_is_not_there_are_4(shell: Shell, queue: str) -> None:
    assert queue in shell.said("group", "list", "--queue", queue, expect=4)


def test_a_place_that_makes_no_sense_is_wrong_usage(shell: Shell, read: str) -> None:
    assert "--to" in shell.misused("group", "seek", read, "billing", "--to", "there")


def test_a_group_that_is_deleted_is_forgotten(shell: Shell, read: str) -> None:
    shell.run("group", "delete", read, "billing", answer="n\n", expect=1)
    shell.run("group", "delete", read, "billing", "--yes")

    assert shell.json("group", "list", "--queue", read) == []


@pytest.mark.parametrize(
    "arguments", [["lag"], ["seek", "--to", "end"], ["restart"], ["delete", "--yes"]]
)
def test_a_group_that_is_not_there_is_4(shell: Shell, read: str, arguments: list[str]) -> None:
    command, *options = arguments

    assert "nobody" in shell.said("group", command, read, "nobody", *options, expect=4)
