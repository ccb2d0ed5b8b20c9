"""``skep orphan``: rows in PostgreSQL whose queue does not exist."""

import asyncio
from functools import partial
from types import ModuleType

import typer

from skep.cli import output
from skep.cli.commands.migrate import Store, on_database
from skep.cli.options import Json, Yes, confirm
from skep.errors import Unavailable

app = typer.Typer(
    no_args_is_help=True,
    help="Show and delete PostgreSQL rows whose queue does not exist.",
)


@app.command("list")
def list_(store: Store, as_json: Json = False) -> None:
    """List missing queues with their remaining rows.

    At most 10,000 rows of each kind are counted. Such rows are left by a partial restore.
    """
    orphans = asyncio.run(on_database(store, _orphan().find_orphans))
    if as_json:
        output.print_document([orphan._asdict() for orphan in orphans])
    else:
        output.print_table(("QUEUE", "PARTITIONS", "SEGMENTS", "MESSAGES", "BYTES"), orphans)


@app.command()
def discard(store: Store, yes: Yes = False, as_json: Json = False) -> None:
    """Permanently delete the rows of missing queues.

    The rows are marked here; running servers delete them in the background.
    """
    orphans = asyncio.run(on_database(store, _orphan().find_orphans))
    queues = [orphan.queue for orphan in orphans]
    if queues:
        messages = sum(orphan.messages for orphan in orphans)
        confirm(f"Permanently delete {messages} messages of {len(queues)} queues?", yes=yes)
        discard = partial(_orphan().discard_orphans, queues=queues)
        asyncio.run(on_database(store, discard))
    output.print_done({"queues": queues}, f"{len(queues)} queues discarded", as_json=as_json)


def _orphan() -> ModuleType:
    try:
        from skep.store.postgres import orphan  # an extra
    except ImportError:
        raise Unavailable("install skep[postgres] to use PostgreSQL") from None
    return orphan
