"""``skep push``: an argument, a file, a pipe."""

import json
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.cli_shell import Shell


def payloads(shell: Shell, queue: str, *options: str) -> list[object]:
    popped = shell.json("pop", queue, "--batch", "1000", "--auto-ack", *options)
    return [message["payload"] for message in popped["messages"]]


def test_an_argument_is_one_message(shell: Shell, queue: str) -> None:
    said = shell.run("push", queue, '{"total": 12}', "--partition", "alice")

    assert said.stdout == "1 stored, 0 duplicates\n"
    assert payloads(shell, queue, "--partition", "alice") == [{"total": 12}]


def test_the_same_transaction_id_again_is_a_duplicate(shell: Shell, queue: str) -> None:
    shell.run("push", queue, "1", "--transaction-id", "o-1")

    counts = shell.json("push", queue, "1", "--transaction-id", "o-1")

    assert counts == {"stored": 0, "duplicates": 1, "buffered": 0}


def test_a_message_can_belong_to_a_trace(shell: Shell, queue: str) -> None:
    trace = str(uuid4())

    shell.run("push", queue, "1", "--trace-id", trace)

    (message,) = shell.json("pop", queue)["messages"]
    assert message["traceId"] == trace


def test_every_line_of_a_file_is_a_message(shell: Shell, queue: str, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text('{"n": 0}\n\n{"n": 1}\n{"n": 2}')

    counts = shell.json("push", queue, "--file", str(file))

    assert counts["stored"] == 3
    assert payloads(shell, queue) == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_every_line_that_is_piped_in_is_a_message(shell: Shell, queue: str) -> None:
    code, out, _ = shell.pipe(b"0\n1\n2\n", "push", queue, "--json")

    assert code == 0
    assert json.loads(out)["stored"] == 3
    assert payloads(shell, queue) == [0, 1, 2]


def test_a_line_is_sent_when_it_comes_not_when_the_pipe_ends(shell: Shell, queue: str) -> None:
    with shell.process("push", queue) as process:
        assert process.stdin is not None
        process.stdin.write(b"1\n")
        process.stdin.flush()

        popped = shell.json("pop", queue, "--wait", "30")

        process.stdin.close()
        assert process.wait(60) == 0
    assert popped["messages"][0]["payload"] == 1


def test_an_envelope_says_where_its_payload_goes(shell: Shell, queue: str, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    lines = [
        {"payload": 1, "partition": "alice", "transactionId": "t"},
        {"payload": 2, "partition": "alice", "transactionId": "t"},
        {"payload": 3},
    ]
    file.write_text("\n".join(map(json.dumps, lines)))

    counts = shell.json("push", queue, "--file", str(file), "--envelope", "--partition", "bob")

    assert (counts["stored"], counts["duplicates"]) == (2, 1)
    assert payloads(shell, queue, "--partition", "alice") == [1]
    assert payloads(shell, queue, "--partition", "bob") == [3]


def test_what_pop_prints_can_be_pushed_again(shell: Shell, queue: str, tmp_path: Path) -> None:
    shell.run("push", queue, '{"n": 1}', "--transaction-id", "t", "--partition", "alice")
    (message,) = shell.json("pop", queue)["messages"]
    file = tmp_path / "lines"
    file.write_text(json.dumps(message))

    counts = shell.json("push", queue, "--file", str(file), "--envelope")

    assert counts["duplicates"] == 1


@pytest.mark.parametrize(
    ("options", "bad"),
    [
        ((), "{"),
        ((), "text"),
        (("--envelope",), "{}"),
        (("--envelope",), '{"payload": 1, "transaction_id": "t"}'),
        (("--envelope",), '{"payload": 1, "partition": "a\\u0007"}'),
        (("--envelope",), '{"payload": 1, "transactionId": ""}'),
    ],
)
def test_a_bad_line_is_named_and_nothing_after_it_is_sent(
    shell: Shell, queue: str, tmp_path: Path, options: tuple[str, ...], bad: str
) -> None:
    good = '{"payload": 1}'
    file = tmp_path / "lines"
    file.write_text(f"{good}\n{good}\n{bad}\n{good}\n")

    result = shell.run("push", queue, "--file", str(file), *options, "--json", expect=1)

    assert "line 3" in result.stderr
    assert json.loads(result.stdout)["stored"] == 2
    assert len(payloads(shell, queue)) == 2


def test_an_argument_that_is_not_json_is_refused(shell: Shell, queue: str) -> None:
    assert "is not JSON" in shell.said("push", queue, "hello", expect=1)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--transaction-id", "t", "--file", "/dev/null"),
        ("1", "--file", "/dev/null"),
        ("1", "--envelope"),
        ("--file", "/nowhere"),
        ("1", "--trace-id", "x"),
    ],
)
def test_options_that_do_not_go_together_are_wrong_usage(
    shell: Shell, queue: str, arguments: tuple[str, ...]
) -> None:
    assert "Usage" in shell.misused("push", queue, *arguments)


def test_a_name_that_cannot_be_one_is_refused(shell: Shell) -> None:
    assert "queue" in shell.said("push", "", "1", expect=1)


def test_a_server_that_is_not_there_is_3(queue: str) -> None:
    said = Shell("http://127.0.0.1:1").said("push", queue, "1", expect=3)

    assert "skep serve" in said


def test_lines_for_a_server_that_is_not_there_are_3(queue: str, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("1\n2\n")

    result = Shell("http://127.0.0.1:1").run("push", queue, "--file", str(file), expect=3)

    assert result.stdout == "0 stored, 0 duplicates\n"
