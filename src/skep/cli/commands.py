"""The tree of commands."""

import typer

from skep.cli import (
    backup,
    bench,
    completion,
    dead_letter,
    group,
    key,
    message,
    migrate,
    push,
    queue,
    tail,
    trace,
)
from skep.cli.ending import Commands
from skep.cli.serve import serve

app = typer.Typer(
    name="skep",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

app.command()(serve)
app.command()(push.push)
app.command()(message.pop)
app.command()(message.ack)
app.command()(tail.tail)
app.command()(trace.trace)
app.command()(bench.bench)
app.command()(backup.backup)
app.command()(backup.restore)
app.command()(completion.completion)
app.add_typer(queue.app, name="queue")
app.add_typer(group.app, name="group")
app.add_typer(dead_letter.app, name="dead-letter")
app.add_typer(key.app, name="key")
app.add_typer(migrate.app, name="migrate")


@app.callback()
def skep() -> None:
    """A partitioned message queue that you can trust with orders and payments."""
