"""What ``skep --help`` says, before any command is loaded."""

import subprocess
import sys

import pytest

from skep.cli.root import RootGroup
from tests.support.cli_shell import Shell


@pytest.fixture
def local() -> Shell:
    """For commands that need no server."""
    return Shell("http://127.0.0.1:1")


@pytest.mark.parametrize("name", RootGroup.lazy_commands)
def test_the_list_says_of_a_command_what_the_command_says_of_itself(name: str) -> None:
    command = RootGroup.lazy_commands[name].load(name)

    assert command.name == name
    assert " ".join(command.help.split("\n\n")[0].split()) == RootGroup.lazy_commands[name].help


@pytest.mark.parametrize("name", RootGroup.lazy_commands)
def test_every_command_is_in_the_list(local: Shell, name: str) -> None:
    assert f"  {name} " in local.run("--help").stdout


def test_a_name_that_is_misspelt_is_set_right(local: Shell) -> None:
    assert "push" in local.misused("psuh", "orders")


def test_a_command_whose_packages_are_not_installed_says_what_to_install() -> None:
    program = """
import sys
sys.modules["uvloop"] = None
sys.argv = ["skep", "serve"]
from skep.cli import main
main()
"""

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.returncode == 1
    assert done.stderr == "skep: skep serve needs uvloop; install skep[all]\n"


@pytest.mark.parametrize("command", ["create", "configure"])
def test_where_encryption_is_enabled_it_says_what_stays_in_plaintext(
    local: Shell, command: str
) -> None:
    said = " ".join(local.run("queue", command, "--help").stdout.split())

    assert "Error texts, trace data and names stay in plaintext" in said
