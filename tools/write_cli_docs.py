"""Write the help of every command into docs/reference/cli.md. ``--check`` compares only."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

from skep.cli.exit_code import EXIT_CODES
from skep.cli.root import app

PAGE = Path(__file__).parents[1] / "docs/reference/cli.md"
BEGIN, END = "<!-- generated: make cli-docs -->\n", "<!-- end -->\n"


def commands() -> Iterator[tuple[str, ...]]:
    """Every command by its words, in the order of the help."""
    yield from _below(typer.main.get_command(app), ())


def help_of(command: tuple[str, ...]) -> str:
    """The help of a command, the same on every machine."""
    os.environ.pop("SKEP_URL", None)
    result = CliRunner().invoke(
        app, [*command, "--help"], prog_name="skep", env={"COLUMNS": "100", "TERMINAL_WIDTH": "100"}
    )
    return "\n".join(line.rstrip() for line in result.stdout.strip().splitlines())


def generated() -> str:
    codes = "\n".join(f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items())
    parts = [f"## Exit codes\n\n| code | |\n|---|---|\n{codes}\n"]
    parts += (
        f"## {' '.join(['skep', *command])}\n\n```text\n{help_of(command)}\n```\n"
        for command in commands()
    )
    return "\n".join(parts)


def _below(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name in command.list_commands(None):
        child = command.get_command(None, name)
        if hasattr(child, "list_commands"):
            yield from _below(child, (*words, name))
        else:
            yield (*words, name)


def main() -> None:
    old = PAGE.read_text()
    new = re.sub(
        f"({re.escape(BEGIN)}).*({re.escape(END)})",
        lambda found: f"{found[1]}\n{generated()}\n{found[2]}",
        old,
        flags=re.DOTALL,
    )
    if "--check" not in sys.argv:
        PAGE.write_text(new)
    elif new != old:
        sys.exit("docs/reference/cli.md differs from the help of the commands: run make cli-docs")


if __name__ == "__main__":
    main()
