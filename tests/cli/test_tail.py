"""``skep tail``: reading along."""

import json
import select
import signal
import subprocess

import httpx
import pytest

from skep import Client
from tests.support.cli_shell import Shell
from tests.support.server_process import ServerProcess


def groups(server: ServerProcess) -> set[str]:
    return {row["name"] for row in httpx.get(f"{server.url}/api/v1/consumer-groups").json()}


def lines(text: str) -> list[object]:
    return [json.loads(line)["payload"] for line in text.splitlines()]


def test_the_newest_come_last(shell: Shell, queue: str) -> None:
    for n in range(4):
        shell.run("push", queue, str(n))

    shown = shell.run("tail", queue, "-n", "3", "--json").stdout

    assert lines(shown) == [1, 2, 3]


def test_nothing_is_consumed(shell: Shell, queue: str, server: ServerProcess) -> None:
    shell.run("push", queue, "1")

    shell.run("tail", queue)

    with Client(server.url) as client:
        assert client.pop(queue) is not None


def test_what_is_shown_can_be_pushed_elsewhere(shell: Shell, queue: str) -> None:
    shell.run("push", queue, '{"n": 1}', "--partition", "alice", "--transaction-id", "t")
    shown = shell.run("tail", queue, "--json").stdout

    code, out, _ = shell.pipe(shown.encode(), "push", f"{queue}-copy", "--envelope")

    assert (code, out) == (0, "1 stored, 0 duplicates\n")
    (message,) = shell.json("pop", f"{queue}-copy")["messages"]
    assert (message["partition"], message["transactionId"]) == ("alice", "t")


def test_a_queue_that_is_not_there_is_4(shell: Shell, queue: str) -> None:
    assert queue in shell.said("tail", queue, expect=4)


def test_that_there_is_nothing_is_said_beside_the_output(shell: Shell, queue: str) -> None:
    shell.run("queue", "create", queue)

    shown = shell.run("tail", queue)

    assert (shown.stdout, shown.stderr) == ("", f"no messages in queue '{queue}'\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_comes_is_followed_until_it_is_stopped(
    shell: Shell, queue: str, server: ServerProcess, number: signal.Signals
) -> None:
    shell.run("push", queue, "0")
    with shell.process("tail", queue, "-f", "--json") as process:
        first = _push_until_seen(shell, queue, process)
        process.send_signal(number)
        code = process.wait(60)

    assert first == 1
    assert code == 0
    assert not {name for name in groups(server) if name.startswith("tail-")}


def _push_until_seen(shell: Shell, queue: str, process: subprocess.Popen[bytes]) -> object:
    """What it shows first. It must have begun to follow, so it is pushed to until it shows."""
    assert process.stdout is not None
    for _ in range(60):
        shell.run("push", queue, "1")
        if select.select([process.stdout], [], [], 1)[0]:
            return json.loads(process.stdout.readline())["payload"]
    pytest.fail("nothing is shown")


def test_a_group_goes_with_following(shell: Shell, queue: str) -> None:
    assert "--follow" in shell.misused("tail", queue, "--group", "g")
