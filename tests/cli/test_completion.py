"""``skep completion``, and that shells get answers."""

import os
import subprocess
import sys

import pytest

from tests.support.cli_shell import Shell

PROGRAM = "import sys; sys.argv = ['skep']; from skep.cli import main; main()"


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_each_shell(shell_name: str) -> None:
    script = Shell("http://127.0.0.1:1").run("completion", shell_name).stdout

    assert f"complete_{shell_name}" in script


def test_a_shell_that_is_not_known_is_wrong_usage() -> None:
    assert "powder" in Shell("http://127.0.0.1:1").misused("completion", "powder")


def test_commands_are_completed() -> None:
    asked = {"_SKEP_COMPLETE": "complete_bash", "COMP_WORDS": "skep pu", "COMP_CWORD": "1"}

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ | asked, capture_output=True, text=True
    )

    assert done.stdout.split() == ["push"]
