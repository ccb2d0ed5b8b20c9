"""Options that several commands share, and the confirmation of deletions."""

from typing import Annotated

import typer

from skep.cli.exit_code import FAILED, print_error

Queue = Annotated[str, typer.Argument(help="Name of the queue.")]
Group = Annotated[str, typer.Argument(help="Name of the consumer group.")]
OnlyGroup = Annotated[str | None, typer.Option("--group", help="Only for this group.")]
OnlyPartition = Annotated[str | None, typer.Option("--partition", help="Only this partition.")]
Count = Annotated[
    int, typer.Option("--count", "-n", min=1, max=1000, help="Maximum number of results.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes = Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")]


def confirm(question: str, *, yes: bool) -> None:
    """Return if the user agrees; exit otherwise."""
    if yes:
        return
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort:
        # No terminal, or end of input.
        typer.echo(err=True)
        agreed = False
    if not agreed:
        print_error("cancelled, nothing was changed; --yes skips the confirmation")
        raise typer.Exit(FAILED)
