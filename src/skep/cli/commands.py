"""The tree of commands."""

import typer

from skep.cli.serve import serve

app = typer.Typer(
    name="skep",
    help="A partitioned message queue that you can trust with orders and payments.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


app.command()(serve)


@app.callback()
def skep() -> None:
    """A partitioned message queue that you can trust with orders and payments."""
