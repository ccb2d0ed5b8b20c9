"""The root of the commands. Each is imported when it is run, so that the help is fast."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

import typer

from skep.cli.exit_code import CliGroup
from skep.cli.lazy_group import LazyCommand, LazyGroup


class RootGroup(CliGroup, LazyGroup):
    """The commands by name, in the order of the help."""

    lazy_commands: ClassVar[Mapping[str, LazyCommand]] = {
        "serve": LazyCommand("commands.serve:serve", "Run a server until it is stopped."),
        "push": LazyCommand("commands.push:push", "Push messages to a queue."),
        "pop": LazyCommand("commands.pop:pop", "Lease and print the next messages of a queue."),
        "ack": LazyCommand("commands.pop:ack", "Settle all messages of a lease."),
        "tail": LazyCommand(
            "commands.tail:tail", "Print the newest messages of a queue without consuming them."
        ),
        "trace": LazyCommand(
            "commands.trace:trace", "Print the messages of a trace id, or the events with a name."
        ),
        "bench": LazyCommand("commands.bench:bench", "Measure the throughput of pushes and pops."),
        "demo": LazyCommand(
            "commands.demo:demo", "Fill a server with the example data of a small shop."
        ),
        "backup": LazyCommand("commands.backup:backup", "Back up the store of a running server."),
        "restore": LazyCommand("commands.backup:restore", "Restore a backup to a local directory."),
        "transfer": LazyCommand(
            "commands.transfer:transfer", "Copy queues from one store to another."
        ),
        "completion": LazyCommand(
            "commands.completion:completion", "Print the completion script for a shell."
        ),
        "queue": LazyCommand(
            "commands.queue:app", "Create, show, configure, clear and delete queues."
        ),
        "message": LazyCommand(
            "commands.message:app", "Show, dead-letter and delete a message by its id."
        ),
        "group": LazyCommand("commands.group:app", "Show, move and delete consumer groups."),
        "application": LazyCommand(
            "commands.application:app", "Show and reset applications of the exactly-once sink."
        ),
        "dead-letter": LazyCommand(
            "commands.dead_letter:app", "Show, replay and delete dead letters."
        ),
        "maintenance": LazyCommand("commands.maintenance:app", "Buffer pushes or pause pops."),
        "pipeline": LazyCommand("pipeline.app:app", "Run Spark jobs over whole queues."),
        "key": LazyCommand("commands.key:app", "Create, list and revoke API keys."),
        "orphan": LazyCommand(
            "commands.orphan:app", "Show and delete PostgreSQL rows whose queue does not exist."
        ),
        "migrate": LazyCommand("commands.migrate:app", "Migrate the PostgreSQL schema."),
    }


app = typer.Typer(
    name="skep",
    cls=RootGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        typer.echo(f"skep {version('skep')}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
]


@app.callback()
def skep(version: Version = False) -> None:
    """A partitioned message queue that you can trust with orders and payments."""
