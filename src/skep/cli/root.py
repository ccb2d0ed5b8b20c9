"""The tree of commands. Each is loaded when it is asked for, so that the help comes at once."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

import typer

from skep.cli.exit_code import Commands
from skep.cli.lazy_group import Later, LaterCommands


class Tree(Commands, LaterCommands):
    """The commands by name, in the order of the help."""

    later: ClassVar[Mapping[str, Later]] = {
        "serve": Later("commands.serve:serve", "Run a server until it is told to stop."),
        "push": Later("commands.push:push", "Push messages into a queue."),
        "pop": Later("commands.pop:pop", "Lease the next messages of a queue, and show them."),
        "ack": Later("commands.pop:ack", "Say what became of all messages of a lease."),
        "tail": Later(
            "commands.tail:tail", "Show the newest messages of a queue without consuming them."
        ),
        "trace": Later(
            "commands.trace:trace", "Show messages with a trace id, or events with a name."
        ),
        "bench": Later("commands.bench:bench", "Measure how many messages a second come and go."),
        "demo": Later("commands.demo:demo", "Fill a server with a small shop to look at."),
        "backup": Later(
            "commands.backup:backup", "Let the server copy its store, while work goes on."
        ),
        "restore": Later("commands.backup:restore", "Put a backup in place, on this machine."),
        "transfer": Later("commands.transfer:transfer", "Move queues from one store to another."),
        "completion": Later(
            "commands.completion:completion", "Print the completion script of a shell."
        ),
        "queue": Later("commands.queue:app", "Make, show, configure, clear and delete queues."),
        "message": Later("commands.message:app", "Show, give up and delete one message by its id."),
        "group": Later("commands.group:app", "Show, move and delete consumer groups."),
        "application": Later(
            "commands.application:app", "Show and reset what writes under versions."
        ),
        "dead-letter": Later(
            "commands.dead_letter:app", "Show, send back and delete dead letters."
        ),
        "maintenance": Later(
            "commands.maintenance:app", "Lay pushes aside, or let pops find nothing."
        ),
        "pipeline": Later("pipeline.app:app", "Run jobs over whole queues, with Spark."),
        "key": Later("commands.key:app", "Make, list and revoke API keys."),
        "ownerless": Later(
            "commands.orphan:app", "Show and discard rows in PostgreSQL whose queue does not exist."
        ),
        "migrate": Later("commands.migrate:app", "Bring the schema in PostgreSQL up to date."),
    }


app = typer.Typer(
    name="skep",
    cls=Tree,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"skep {version('skep')}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
]


@app.callback()
def skep(version: Version = False) -> None:
    """A partitioned message queue that you can trust with orders and payments."""
