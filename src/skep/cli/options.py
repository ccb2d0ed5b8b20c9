"""What several commands take, and asking before something is gone."""

from typing import Annotated

import typer

from skep.cli.exit_code import FAILED, complain

Queue = Annotated[str, typer.Argument(help="The queue.")]
Group = Annotated[str, typer.Argument(help="The consumer group.")]
OnlyGroup = Annotated[str | None, typer.Option("--group", help="Only for this group.")]
OnlyPartition = Annotated[str | None, typer.Option("--partition", help="Only this partition.")]
Count = Annotated[int, typer.Option("--count", "-n", min=1, max=1000, help="How many at most.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def confirm(question: str, *, yes: bool) -> None:
    """Go on only if somebody says so."""
    if yes:
        return
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort:
        # There was nobody to answer.
        typer.echo(err=True)
        agreed = False
    if not agreed:
        complain("nothing was done; --yes goes on without asking")
        raise typer.Exit(FAILED)
