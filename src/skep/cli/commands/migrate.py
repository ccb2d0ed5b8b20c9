"""``skep migrate``: the schema in PostgreSQL."""

import asyncio
from types import ModuleType
from typing import Annotated, Any

import typer

from skep.cli import output
from skep.cli.options import Json
from skep.errors import Invalid, Unavailable

app = typer.Typer(no_args_is_help=True, help="Bring the schema in PostgreSQL up to date.")

Store = Annotated[str, typer.Option("--store", envvar="SKEP_STORE", help="A URL: postgresql://…")]


@app.command()
def up(store: Store) -> None:
    """Apply what is pending. A server does it when it starts; this is for doing it before."""
    done = asyncio.run(on_database(store, _migrate().apply))
    for migration in done:
        output.print_text(f"applied {migration.number:04} {migration.name}")
    if not done:
        output.print_text("nothing is pending")


@app.command()
def status(store: Store, as_json: Json = False) -> None:
    """List the migrations that this version knows, and when each was applied."""
    found = asyncio.run(on_database(store, _migrate().status))
    rows = [(each.migration.number, each.migration.name, each.applied_at) for each in found]
    if as_json:
        keys = "number", "name", "applied_at"
        output.print_document([dict(zip(keys, row, strict=True)) for row in rows])
    else:
        output.print_table(("NUMBER", "NAME", "APPLIED"), rows)


@app.command("print")
def print_() -> None:
    """Print the SQL of all migrations, for who applies them by other means."""
    for migration in _migrate().MIGRATIONS:
        output.print_text(f"-- {migration.number:04} {migration.name}\n{migration.statements}")


async def on_database(store: str, work: Any) -> Any:
    """Do ``work`` on a connection to a store that need not be one a server would start on."""
    from skep.store.postgres.connections import Connections

    if not store.startswith(("postgresql://", "postgres://")):
        raise Invalid("store", "must be a URL of PostgreSQL: postgresql://…")
    database = Connections(store)
    try:
        return await database.read(work)
    finally:
        await database.close()


def _migrate() -> ModuleType:
    try:
        from skep.store.postgres import migrate  # an extra
    except ImportError:
        raise Unavailable("install skep[postgres] to keep queues in PostgreSQL") from None
    return migrate
