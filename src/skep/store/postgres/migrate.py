"""The schema, in numbered steps that are never edited once they are released.

All pending steps are one transaction, under a lock that ends with it: two servers that start at
the same time wait for each other, also through a pooler. Each applied step is recorded with the
checksum of its text.

A statement that waits for a table lock makes every later statement on the table wait, too. So a
migration waits for a lock only briefly, rolls back, and retries later.
"""

import asyncio
import hashlib
import logging
import re
import time
from collections.abc import Sequence
from datetime import datetime
from importlib import resources
from random import random
from typing import NamedTuple

import asyncpg

from skep.errors import Corrupted, Invalid, Unavailable
from skep.store.postgres.sql import QUERIES

_SECONDS = 3600
PATIENCE_SECONDS = 60.0
"""How long a migration is retried while other sessions hold locks on the tables."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
_NAMED = 5
"""How many relations of another program an error names."""
_TAKEN = (
    asyncpg.DuplicateTableError,
    asyncpg.DuplicateFunctionError,
    asyncpg.DuplicateObjectError,
    asyncpg.WrongObjectTypeError,
)
"""A name that a migration needs is in use."""
_log = logging.getLogger("skep.store")
_NAME = re.compile(r"(\d{4})_([a-z_]+)\.sql")


class Migration(NamedTuple):
    number: int
    name: str
    statements: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.statements.encode()).hexdigest()


class MigrationStatus(NamedTuple):
    """A migration, and when it was applied; None if it is pending."""

    migration: Migration
    applied_at: datetime | None


def load() -> list[Migration]:
    found = [
        Migration(int(match[1]), match[2], file.read_text("utf-8"))
        for file in resources.files("skep.store.postgres.migrations").iterdir()
        if (match := _NAME.fullmatch(file.name))
    ]
    return sorted(found)


MIGRATIONS = load()


async def status(
    connection: asyncpg.Connection, known: Sequence[Migration] = MIGRATIONS
) -> list[MigrationStatus]:
    """All migrations that this version knows.

    Raises ``Corrupted`` if a newer or a changed version made the schema, and ``Invalid`` if another
    program did.
    """
    applied: list[asyncpg.Record] = []
    if await connection.fetchval(QUERIES["has_migrations"]):
        applied = await connection.fetch(QUERIES["applied_migrations"])
    else:
        _check_empty(await connection.fetch(QUERIES["foreign_relations"]))
    _check(applied, known)
    times = {number: applied_at for number, _, _, applied_at in applied}
    return [MigrationStatus(migration, times.get(migration.number)) for migration in known]


async def pending(
    connection: asyncpg.Connection, known: Sequence[Migration] = MIGRATIONS
) -> list[Migration]:
    return [each.migration for each in await status(connection, known) if each.applied_at is None]


async def apply(
    connection: asyncpg.Connection,
    known: Sequence[Migration] = MIGRATIONS,
    *,
    patience: float = PATIENCE_SECONDS,
) -> list[Migration]:
    """Apply all pending migrations in one transaction, in order; return them."""
    if not await pending(connection, known):
        return []
    deadline, pause = time.monotonic() + patience, FIRST_PAUSE
    while True:
        try:
            return await _apply_pending(connection, known)
        except asyncpg.LockNotAvailableError as error:
            holders = await connection.fetchval(QUERIES["lock_holders"])
            if time.monotonic() + pause > deadline:
                raise Unavailable(
                    f"the schema queen cannot be migrated: its tables are locked by {holders}; "
                    "end that transaction, or wait for it"
                ) from error
            _log.warning(
                "migration waits for a lock, retrying: holders=%s delay=%.1fs", holders, pause
            )
            await asyncio.sleep(pause * (0.5 + random() / 2))
            pause = min(2 * pause, LONGEST_PAUSE)


async def _apply_pending(
    connection: asyncpg.Connection, known: Sequence[Migration]
) -> list[Migration]:
    async with connection.transaction():
        await connection.execute(QUERIES["wait_for_migrations"])
        await connection.execute(QUERIES["lock_migrations"], timeout=_SECONDS)
        migrations = await pending(connection, known)
        await connection.execute(QUERIES["wait_briefly_for_tables"])
        await connection.execute(QUERIES["create_migrations"])
        for migration in migrations:
            await _run(connection, migration)
            recorded = migration.number, migration.name, migration.checksum
            await connection.execute(QUERIES["put_migration"], *recorded)
        return migrations


async def _run(connection: asyncpg.Connection, migration: Migration) -> None:
    try:
        await connection.execute(migration.statements, timeout=_SECONDS)
    except _TAKEN as error:
        raise Invalid(
            "store",
            f"the schema queen holds what Skep did not create: {error}; "
            "nothing was written; use another database",
        ) from error


def _check_empty(found: list[asyncpg.Record]) -> None:
    if found:
        names = ", ".join(row[0] for row in found[:_NAMED])
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        raise Invalid(
            "store",
            f"the database has a schema queen that Skep did not create, with {names}{more}; "
            "nothing was written; use another database",
        )


def _check(applied: list[asyncpg.Record], known: Sequence[Migration]) -> None:
    by_number = {migration.number: migration for migration in known}
    for number, name, checksum, _ in applied:
        migration = by_number.get(number)
        if migration is None:
            raise Corrupted(
                f"the schema queen has migration {number} ({name}), this version knows them up "
                f"to {max(by_number)}: start a newer server"
            )
        if migration.checksum != checksum:
            raise Corrupted(
                f"migration {number} ({name}) was applied with another text than this version has"
            )
