"""``skep ownerless``: rows in PostgreSQL whose queue does not exist."""

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
    help="Show and discard rows in PostgreSQL whose queue does not exist, as after a partial "
    "restore.",
)


@app.command("list")
def list_(store: Store, as_json: Json = False) -> None:
    """List the queues that do not exist and what they hold, up to 10,000 rows of a kind each."""
    found = asyncio.run(on_database(store, _ownerless().find_ownerless))
    if as_json:
        output.print_document([each._asdict() for each in found])
    else:
        output.print_table(("QUEUE", "PARTITIONS", "SEGMENTS", "MESSAGES", "BYTES"), found)


@app.command()
def discard(store: Store, yes: Yes = False, as_json: Json = False) -> None:
    """Delete what these queues hold, for good; servers remove it when they run."""
    found = asyncio.run(on_database(store, _ownerless().find_ownerless))
    queues = [each.queue for each in found]
    if queues:
        messages = sum(each.messages for each in found)
        confirm(f"Delete {messages} messages of {len(queues)} queues for good?", yes=yes)
        discard = partial(_ownerless().discard_ownerless, queues=queues)
        asyncio.run(on_database(store, discard))
    output.print_done({"queues": queues}, f"{len(queues)} queues discarded", as_json=as_json)


def _ownerless() -> ModuleType:
    try:
        from skep.store.postgres import orphan as ownerless
    except ImportError:
        raise Unavailable("install skep[postgres] to keep queues in PostgreSQL") from None
    return ownerless
