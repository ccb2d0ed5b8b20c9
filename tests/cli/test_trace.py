"""``skep trace``."""

from uuid import uuid4

import httpx

from tests.support.cli_shell import Shell
from tests.support.server_process import ServerProcess


def test_messages_of_a_trace_are_shown_across_queues(shell: Shell, queue: str) -> None:
    trace = str(uuid4())
    shell.run("push", queue, "1", "--trace-id", trace)
    shell.run("push", f"{queue}-next", "2", "--trace-id", trace)

    shell.run("pop", queue, "--auto-ack")

    shown = shell.json("trace", trace)

    assert [(message["queue"], message["status"]) for message in shown] == [
        (queue, "completed"),
        (f"{queue}-next", "pending"),
    ]
    assert f"{queue}-next" in shell.run("trace", trace).stdout


def test_events_are_shown_by_name(shell: Shell, queue: str, server: ServerProcess) -> None:
    shell.run("push", queue, "1", "--transaction-id", "t")
    pushed = httpx.get(f"{server.url}/api/v1/messages", params={"queue": queue}).json()
    event = {
        "transactionId": "t",
        "partitionId": pushed["messages"][0]["partitionId"],
        "data": {"paid": True},
        "traceNames": [queue],
    }
    assert httpx.post(f"{server.url}/api/v1/traces", json=event).status_code == 201

    (shown,) = shell.json("trace", "--name", queue)

    assert shown["data"] == {"paid": True}
    assert (shown["queue"], shown["transactionId"]) == (queue, "t")
    assert '{"paid":true}' in shell.run("trace", "--name", queue).stdout.replace(" ", "")


def test_a_trace_that_is_not_there_is_4(shell: Shell, queue: str) -> None:
    shell.said("trace", str(uuid4()), expect=4)
    shell.said("trace", "--name", queue, expect=4)


def test_one_of_id_and_name_must_be_given(shell: Shell) -> None:
    assert "--name" in shell.misused("trace")
