"""``skep backup`` and ``skep restore``."""

from pathlib import Path
from uuid import uuid4

from tests.support.cli_shell import Shell
from tests.support.server_process import ServerProcess


def test_what_was_backed_up_is_there_after_a_restore(
    shell: Shell, queue: str, tmp_path: Path
) -> None:
    shell.run("push", queue, '{"n": 1}')
    made = shell.json("backup", f"today-{uuid4().hex}")["path"]

    shell.run("restore", made, str(tmp_path / "restored"))

    with ServerProcess(tmp_path / "restored") as server:
        popped = Shell(server.url).json("pop", queue)
    assert popped["messages"][0]["payload"] == {"n": 1}


def test_a_backup_says_where_it_is(shell: Shell) -> None:
    name = uuid4().hex

    assert shell.run("backup", name).stdout.endswith(f"/{name}\n")


def test_a_backup_elsewhere_is_refused(shell: Shell) -> None:
    assert "backup directory" in shell.said("backup", "/tmp/elsewhere", expect=1)


def test_what_is_no_backup_is_not_restored(shell: Shell, tmp_path: Path) -> None:
    said = shell.said("restore", str(tmp_path), str(tmp_path / "data"), expect=1)

    assert "does not hold a store" in said


def test_nothing_is_restored_over_something(shell: Shell, tmp_path: Path) -> None:
    made = shell.json("backup", uuid4().hex)["path"]

    assert "exists already" in shell.said("restore", made, str(tmp_path), expect=1)
