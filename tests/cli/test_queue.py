"""``skep queue``."""

import pytest

from skep.model.queue import QueueOptions
from tests.support.cli_shell import Shell


def test_a_queue_is_made_with_options(shell: Shell, queue: str) -> None:
    shell.run("queue", "create", queue, "--lease-time", "7", "--retention-enabled")

    shown = shell.json("queue", "show", queue)

    assert shown["name"] == queue
    assert (shown["options"]["leaseTime"], shown["options"]["retentionEnabled"]) == (7, True)
    assert shown["options"]["retryLimit"] == QueueOptions().retry_limit


def test_what_is_not_configured_stays_as_it_is(shell: Shell, queue: str) -> None:
    shell.run("queue", "create", queue, "--lease-time", "7", "--namespace", "shop")

    shell.run("queue", "configure", queue, "--retry-limit", "9")

    shown = shell.json("queue", "show", queue)
    assert (shown["options"]["leaseTime"], shown["options"]["retryLimit"]) == (7, 9)
    assert shown["namespace"] == "shop"


@pytest.mark.parametrize("option", QueueOptions.__struct_fields__)
def test_every_option_of_a_queue_can_be_given(shell: Shell, option: str) -> None:
    assert f"--{option.replace('_', '-')}" in shell.run("queue", "create", "--help").stdout


def test_a_queue_is_made_once(shell: Shell, queue: str) -> None:
    shell.run("queue", "create", queue)

    assert "configure" in shell.said("queue", "create", queue, expect=1)


def test_an_option_out_of_range_is_refused_by_name(shell: Shell, queue: str) -> None:
    assert "lease_time" in shell.said("queue", "create", queue, "--lease-time", "0", expect=1)


def test_queues_are_listed(shell: Shell, queue: str) -> None:
    shell.run("queue", "create", queue, "--namespace", queue)

    (listed,) = shell.json("queue", "list", "--namespace", queue)

    assert listed["name"] == queue
    assert queue in shell.run("queue", "list").stdout


def test_that_there_is_none_is_said_beside_the_output(shell: Shell, queue: str) -> None:
    listed = shell.run("queue", "list", "--namespace", queue)

    assert listed.stdout == ""
    assert "skep queue create" in listed.stderr
    assert shell.json("queue", "list", "--namespace", queue) == []


def test_a_queue_is_shown_with_its_partitions(shell: Shell, queue: str) -> None:
    shell.run("push", queue, "1", "--partition", "alice")

    shown = shell.run("queue", "show", queue).stdout

    assert "--lease-time" in shown
    assert "alice" in shown


@pytest.mark.parametrize("command", ["show", "configure", "removals", "clear", "delete"])
def test_a_queue_that_is_not_there_is_4(shell: Shell, queue: str, command: str) -> None:
    yes = ["--yes"] if command in ("clear", "delete") else []

    assert queue in shell.said("queue", command, queue, *yes, expect=4)


def test_a_queue_is_cleared_if_the_answer_is_yes(shell: Shell, queue: str) -> None:
    shell.run("push", queue, "1")

    shell.run("queue", "clear", queue, answer="n\n", expect=1)
    kept = shell.json("queue", "show", queue)["messages"]["total"]
    shell.run("queue", "clear", queue, answer="y\n")

    assert kept == 1
    assert shell.json("queue", "show", queue)["messages"]["total"] == 0


def test_what_left_a_queue_is_shown(shell: Shell, queue: str) -> None:
    shell.run("push", queue, "1", "--partition", "alice")
    before = shell.run("queue", "removals", queue)
    shell.run("queue", "clear", queue, "--yes")

    (removal,) = shell.json("queue", "removals", queue)

    assert (before.stdout, before.stderr) == (
        "",
        f"no messages were deleted from queue '{queue}'\n",
    )
    assert (removal["partition"], removal["kind"]) == ("alice", "cleared")
    assert "alice" in shell.run("queue", "removals", queue).stdout


def test_what_is_asked_of_nobody_is_not_done(shell: Shell, queue: str) -> None:
    shell.run("queue", "create", queue)

    refused = shell.run("queue", "delete", queue, expect=1)

    assert "--yes" in refused.stderr
    shell.run("queue", "show", queue)


def test_a_queue_is_deleted_if_the_answer_is_yes(shell: Shell, queue: str) -> None:
    shell.run("queue", "create", queue)

    shell.run("queue", "delete", queue, answer="n\n", expect=1)
    shell.run("queue", "show", queue)
    shell.run("queue", "delete", queue, "--yes")

    shell.run("queue", "show", queue, expect=4)
