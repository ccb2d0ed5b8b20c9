"""The schema, in numbered steps that are never edited once they are released.

Each step is one transaction, under a lock that ends with it: two servers that start at once wait
for each other, also behind a pooler. What was applied is recorded with the checksum of its text.
"""

import hashlib
import re
from collections.abc import Sequence
from datetime import datetime
from importlib import resources
from typing import NamedTuple

import asyncpg

from skep.errors import Corrupted
from skep.store.postgres.sql import QUERIES

_SECONDS = 3600
_NAME = re.compile(r"(\d{4})_([a-z_]+)\.sql")


class Migration(NamedTuple):
    number: int
    name: str
    statements: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.statements.encode()).hexdigest()


class Status(NamedTuple):
    """A migration, and when it was applied: None if it was not yet."""

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
) -> list[Status]:
    """All that this version knows; raises ``Corrupted`` if the schema is not one of its own."""
    applied: list[asyncpg.Record] = []
    if await connection.fetchval(QUERIES["has_migrations"]):
        applied = await connection.fetch(QUERIES["applied_migrations"])
    _check(applied, known)
    times = {number: applied_at for number, _, _, applied_at in applied}
    return [Status(migration, times.get(migration.number)) for migration in known]


async def pending(
    connection: asyncpg.Connection, known: Sequence[Migration] = MIGRATIONS
) -> list[Migration]:
    return [each.migration for each in await status(connection, known) if each.applied_at is None]


async def apply(
    connection: asyncpg.Connection, known: Sequence[Migration] = MIGRATIONS
) -> list[Migration]:
    """Apply what is pending, in order; returns what that was."""
    done: list[Migration] = []
    if not await pending(connection, known):
        return done
    while migration := await _apply_next(connection, known):
        done.append(migration)
    return done


async def _apply_next(
    connection: asyncpg.Connection, known: Sequence[Migration]
) -> Migration | None:
    async with connection.transaction():
        await connection.execute(QUERIES["wait_for_migrations"])
        await connection.execute(QUERIES["lock_migrations"], timeout=_SECONDS)
        await connection.execute(QUERIES["create_migrations"])
        migration = next(iter(await pending(connection, known)), None)
        if migration is not None:
            await connection.execute(migration.statements, timeout=_SECONDS)
            recorded = migration.number, migration.name, migration.checksum
            await connection.execute(QUERIES["put_migration"], *recorded)
        return migration


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
