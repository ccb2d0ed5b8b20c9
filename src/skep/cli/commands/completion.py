"""``skep completion``: the script that lets a shell complete commands."""

from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import shell_complete


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    ctx: typer.Context,
    shell: Annotated[Shell, typer.Argument(help="The shell that will read it.")] = Shell.BASH,
) -> None:
    """Print the completion script of a shell.

    For bash: put eval "$(skep completion bash)" into your .bashrc.
    """
    shell_complete(ctx.find_root().command, {}, "skep", "_SKEP_COMPLETE", f"source_{shell.value}")
