"""``skep migrate``: the PostgreSQL schema."""

import asyncio
from types import ModuleType
from typing import Annotated, Any

import typer

from skep.cli import output
from skep.cli.options import Json
from skep.errors import Invalid, Unavailable

app = typer.Typer(no_args_is_help=True, help="Migrate the PostgreSQL schema.")

Store = Annotated[
    str, typer.Option("--store", envvar="SKEP_STORE", help="URL of the database: postgresql://…")
]


@app.command()
def up(store: Store) -> None:
    """Apply pending migrations. Servers do this at startup; use it to migrate beforehand."""
    applied = asyncio.run(on_database(store, _migrate().apply))
    for migration in applied:
        output.print_text(f"applied {migration.number:04} {migration.name}")
    if not applied:
        output.print_text("no pending migrations")


@app.command()
def status(store: Store, as_json: Json = False) -> None:
    """List the migrations of this version, and when each was applied."""
    statuses = asyncio.run(on_database(store, _migrate().status))
    rows = [
        (status.migration.number, status.migration.name, status.applied_at) for status in statuses
    ]
    if as_json:
        keys = "number", "name", "applied_at"
        output.print_document([dict(zip(keys, row, strict=True)) for row in rows])
    else:
        output.print_table(("NUMBER", "NAME", "APPLIED"), rows)


@app.command("print")
def print_() -> None:
    """Print the SQL of all migrations."""
    for migration in _migrate().MIGRATIONS:
        output.print_text(f"-- {migration.number:04} {migration.name}\n{migration.statements}")


async def on_database(store: str, work: Any) -> Any:
    """Run ``work`` on a connection, also if a server would not start on the database."""
    from skep.store.postgres.connections import Connections

    if not store.startswith(("postgresql://", "postgres://")):
        raise Invalid("store", "must be a PostgreSQL URL: postgresql://…")
    database = Connections(store)
    try:
        return await database.read(work)
    finally:
        await database.close()


def _migrate() -> ModuleType:
    try:
        from skep.store.postgres import migrate  # an extra
    except ImportError:
        raise Unavailable("install skep[postgres] to use PostgreSQL") from None
    return migrate
