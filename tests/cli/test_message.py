"""``skep message``."""

import json
from uuid import uuid4

import pytest

from tests.support.cli_shell import Shell


@pytest.fixture
def message(shell: Shell, queue: str) -> str:
    """The id of a message that the group ``billing`` has before it."""
    for payload in ("1", '{"n": 2}'):
        shell.run("push", queue, payload)
    shell.run("pop", queue, "--group", "billing", "--auto-ack")
    (_, last) = map(id_of, shell.run("tail", queue, "--json").stdout.splitlines())
    return last


def id_of(line: str) -> str:
    found: str = json.loads(line)["id"]
    return found


def test_a_message_is_shown_without_consuming_it(shell: Shell, queue: str, message: str) -> None:
    assert shell.json("message", "show", message)["payload"] == {"n": 2}
    assert '{"n": 2}' in shell.run("message", "show", message).stdout
    assert shell.json("pop", queue, "--group", "billing")["messages"][0]["id"] == message


def test_a_message_is_given_up_before_it_is_delivered(
    shell: Shell, queue: str, message: str
) -> None:
    done = shell.json("message", "give-up", message, "--group", "billing", "--error", "broken")

    (letter,) = shell.json("dead-letter", "list", queue)
    assert done == {"groups": ["billing"]}
    assert (letter["messageId"], letter["error"]) == (message, "broken")
    assert "no group has this message" in shell.said("message", "give-up", message, expect=1)


def test_a_message_is_removed_if_the_answer_is_yes(shell: Shell, message: str) -> None:
    shell.run("message", "delete", message, answer="n\n", expect=1)
    shell.run("message", "show", message)
    shell.run("message", "delete", message, "--yes")

    assert message in shell.said("message", "show", message, expect=4)


def test_what_is_no_id_of_a_message_is_refused(shell: Shell) -> None:
    assert "Usage" in shell.misused("message", "show", "x")
    assert "message_id" in shell.said("message", "show", str(uuid4()), expect=1)
