"""``skep pop`` and ``skep ack``."""

from uuid import uuid4

import pytest

from tests.support.cli_shell import Shell


@pytest.fixture
def filled(shell: Shell, queue: str) -> str:
    """A queue with a message in each of two partitions."""
    shell.run("push", queue, '{"n": 1}', "--partition", "alice", "--transaction-id", "t-1")
    shell.run("push", queue, '{"n": 2}', "--partition", "bob")
    return queue


def pop(shell: Shell, queue: str) -> str:
    lease: str = shell.json("pop", queue, "--partition", "alice")["leaseId"]
    return lease


def test_a_pop_shows_messages_and_their_lease(shell: Shell, filled: str) -> None:
    shown = shell.run("pop", filled, "--partition", "alice").stdout

    assert '{"n": 1}' in shown
    assert "t-1" in shown
    assert "lease " in shown


def test_a_pop_can_take_several_partitions(shell: Shell, filled: str) -> None:
    popped = shell.json("pop", filled, "--batch", "10", "--partitions", "2")

    assert {message["partition"] for message in popped["messages"]} == {"alice", "bob"}
    assert popped["leaseId"]


def test_groups_pop_for_themselves(shell: Shell, filled: str) -> None:
    for group in ("billing", "shipping"):
        popped = shell.json("pop", filled, "--group", group, "--partition", "alice")

        assert popped["group"] == group
        assert len(popped["messages"]) == 1


def test_what_is_acknowledged_at_once_has_no_lease(shell: Shell, filled: str) -> None:
    popped = shell.json("pop", filled, "--partition", "alice", "--auto-ack")

    assert popped["leaseId"] is None
    shell.run("pop", filled, "--partition", "alice", expect=4)


def test_a_pop_that_finds_nothing_is_4(shell: Shell, queue: str) -> None:
    assert "no message" in shell.said("pop", queue, expect=4)


def test_what_could_move_the_cursor_is_shown_as_an_escape(shell: Shell, queue: str) -> None:
    shell.run("push", queue, '"\x9b2J [red]x[/red]"')

    shown = shell.run("pop", queue).stdout

    assert "\\x9b2J [red]x[/red]" in shown


def test_an_ack_settles_a_whole_lease(shell: Shell, filled: str) -> None:
    done = shell.json("ack", pop(shell, filled))

    assert done == {"completed": 1, "deadLetters": 0, "retryAt": None, "released": True}


def test_an_ack_says_what_it_did(shell: Shell, filled: str) -> None:
    assert shell.run("ack", pop(shell, filled)).stdout == "1 acknowledged\n"


def test_a_failed_lease_is_retried_later(shell: Shell, filled: str) -> None:
    done = shell.json("ack", pop(shell, filled), "--failed", "--error", "no money")

    assert done["retryAt"]
    shell.run("pop", filled, "--partition", "alice", expect=4)


def test_a_lease_that_is_given_back_comes_again_at_once(shell: Shell, filled: str) -> None:
    said = shell.run("ack", pop(shell, filled), "--retry").stdout

    assert said == "released\n"
    assert pop(shell, filled)


def test_a_lease_that_is_lost_is_refused(shell: Shell) -> None:
    assert "no longer held" in shell.said("ack", str(uuid4()), expect=1)


def test_what_is_no_lease_id_is_refused(shell: Shell) -> None:
    assert "lease" in shell.said("ack", "nonsense", expect=1)


@pytest.mark.parametrize("options", [("--failed", "--retry"), ("--error", "x")])
def test_verdicts_that_contradict_each_other_are_wrong_usage(
    shell: Shell, options: tuple[str, ...]
) -> None:
    assert "Usage" in shell.misused("ack", str(uuid4()), *options)
