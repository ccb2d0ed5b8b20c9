"""``skep dead-letter``."""

import pytest

from tests.support.cli_shell import Shell


@pytest.fixture
def dead(shell: Shell, queue: str) -> str:
    """A queue with a dead letter."""
    shell.run("queue", "create", queue, "--retry-limit", "0")
    shell.run("push", queue, '{"n": 1}', "--partition", "alice")
    lease = shell.json("pop", queue)["leaseId"]
    shell.run("ack", lease, "--failed", "--error", "no such account")
    return queue


def number(shell: Shell, queue: str) -> str:
    (letter,) = shell.json("dead-letter", "list", queue)
    return str(letter["number"])


def test_dead_letters_are_listed_with_their_reason(shell: Shell, dead: str) -> None:
    (letter,) = shell.json("dead-letter", "list", dead, "--partition", "alice")

    assert letter["error"] == "no such account"
    assert "no such account" in shell.run("dead-letter", "list", dead).stdout


def test_a_dead_letter_is_shown_with_its_payload(shell: Shell, dead: str) -> None:
    shown = shell.json("dead-letter", "show", dead, number(shell, dead))

    assert shown["payload"] == {"n": 1}
    assert '{"n": 1}' in shell.run("dead-letter", "show", dead, number(shell, dead)).stdout


@pytest.mark.parametrize("which", ["number", "--all"])
def test_a_dead_letter_is_sent_back(shell: Shell, dead: str, which: str) -> None:
    chosen = number(shell, dead) if which == "number" else which

    assert shell.json("dead-letter", "replay", dead, chosen) == {"replayed": 1}
    assert shell.json("pop", dead)["messages"][0]["payload"] == {"n": 1}


def test_a_dead_letter_is_thrown_away_if_the_answer_is_yes(shell: Shell, dead: str) -> None:
    chosen = number(shell, dead)

    shell.run("dead-letter", "delete", dead, chosen, answer="n\n", expect=1)
    deleted = shell.json("dead-letter", "delete", dead, chosen, "--yes")

    assert deleted == {"deleted": 1}
    assert shell.json("dead-letter", "list", dead) == []


def test_a_dead_letter_that_is_not_there_is_4(shell: Shell, dead: str) -> None:
    assert "999" in shell.said("dead-letter", "show", dead, "999", expect=4)


@pytest.mark.parametrize("command", ["replay", "delete"])
def test_to_say_nothing_is_not_to_say_all(shell: Shell, dead: str, command: str) -> None:
    assert "--all" in shell.misused("dead-letter", command, dead)


@pytest.mark.parametrize("command", ["replay", "delete"])
@pytest.mark.parametrize("also", ["--all", "--group=billing", "--partition=alice"])
def test_to_say_two_things_is_to_say_neither(
    shell: Shell, dead: str, command: str, also: str
) -> None:
    assert "--all" in shell.misused("dead-letter", command, dead, "1", also)


def test_dead_letters_are_chosen_by_group_and_partition(shell: Shell, dead: str) -> None:
    of_nobody = shell.json("dead-letter", "replay", dead, "--group", "nobody")
    of_alice = shell.json("dead-letter", "replay", dead, "--partition", "alice")

    assert (of_nobody, of_alice) == ({"replayed": 0}, {"replayed": 1})


def test_that_there_are_more_is_said(shell: Shell, dead: str) -> None:
    shell.run("push", dead, "2")
    shell.run("ack", shell.json("pop", dead)["leaseId"], "--failed")

    shown = shell.run("dead-letter", "list", dead, "--count", "1")

    assert shown.stderr == "showing 1 of 2; --count shows more\n"
