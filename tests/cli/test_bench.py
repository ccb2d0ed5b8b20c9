"""``skep bench``."""

from tests.support.cli_shell import Shell


def test_it_measures_and_leaves_nothing_behind(shell: Shell) -> None:
    figures = shell.json("bench", "--messages", "200", "--batch", "50", "--partitions", "3")

    assert figures["messages"] == 200
    assert figures["pushedPerSecond"] > 0
    assert figures["consumedPerSecond"] > 0
    assert not [q for q in shell.json("queue", "list") if q["name"].startswith("bench-")]


def test_it_prints_a_table_for_people(shell: Shell) -> None:
    assert "pop and ack" in shell.run("bench", "--messages", "10").stdout


def test_without_a_server_it_is_3() -> None:
    Shell("http://127.0.0.1:1").said("bench", "--messages", "10", expect=3)
