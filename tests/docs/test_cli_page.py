"""docs/reference/cli.md shows every command as it is."""

import pytest
from tools.write_cli_docs import PAGE, commands, help_of

from skep.cli.exit_code import EXIT_CODES

TEXT = PAGE.read_text()


@pytest.mark.parametrize("command", list(commands()), ids=" ".join)
def test_the_help_of_every_command_is_on_the_page(command: tuple[str, ...]) -> None:
    assert f"```text\n{help_of(command)}\n```" in TEXT, "run make cli-docs"


@pytest.mark.parametrize("command", list(commands()), ids=" ".join)
def test_every_command_says_what_it_does(command: tuple[str, ...]) -> None:
    assert len(help_of(command).splitlines()) > 4


@pytest.mark.parametrize("code", EXIT_CODES)
def test_every_exit_code_is_on_the_page(code: int) -> None:
    assert f"| {code} | {EXIT_CODES[code]} |" in TEXT
