"""``skep completion``: completion scripts for shells."""

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
    shell: Annotated[Shell, typer.Argument(help="Name of the shell.")] = Shell.BASH,
) -> None:
    """Print the completion script for a shell.

    For bash, add this line to .bashrc: eval "$(skep completion bash)"
    """
    shell_complete(ctx.find_root().command, {}, "skep", "_SKEP_COMPLETE", f"source_{shell.value}")
