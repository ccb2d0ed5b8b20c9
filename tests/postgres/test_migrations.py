"""The schema: applied once, in order, by whoever comes first; never by who does not know it."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from skep.errors import Corrupted
from skep.store.postgres import migrate
from skep.store.postgres.migrate import MIGRATIONS, Migration
from skep.store.postgres.store import PostgresStore

NEXT = Migration(len(MIGRATIONS) + 1, "one_more", "CREATE TABLE queen.one_more (n integer);")
BROKEN = Migration(len(MIGRATIONS) + 1, "broken", "CREATE TABLE queen.half (); SELECT 1 / 0;")


@pytest.fixture
async def connection(bare_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(bare_url)
    yield connection
    await connection.close()


async def test_an_empty_database_has_everything_pending(connection: asyncpg.Connection) -> None:
    assert await migrate.pending(connection) == MIGRATIONS
    assert [each.applied_at for each in await migrate.status(connection)] == [None] * len(
        MIGRATIONS
    )


async def test_numbers_are_consecutive() -> None:
    assert [migration.number for migration in MIGRATIONS] == list(range(1, len(MIGRATIONS) + 1))


async def test_what_is_pending_is_applied_once_and_recorded(
    connection: asyncpg.Connection,
) -> None:
    first = await migrate.apply(connection)
    second = await migrate.apply(connection)

    assert (first, second) == (MIGRATIONS, [])
    assert all(each.applied_at for each in await migrate.status(connection))


async def test_a_new_migration_is_applied_to_what_is_there(connection: asyncpg.Connection) -> None:
    await migrate.apply(connection)

    done = await migrate.apply(connection, [*MIGRATIONS, NEXT])

    assert done == [NEXT]
    assert await connection.fetchval("SELECT count(*) FROM queen.one_more") == 0


async def test_a_migration_that_fails_leaves_nothing_behind(connection: asyncpg.Connection) -> None:
    await migrate.apply(connection)

    with pytest.raises(asyncpg.DivisionByZeroError):
        await migrate.apply(connection, [*MIGRATIONS, BROKEN])

    assert await connection.fetchval("SELECT to_regclass('queen.half')") is None
    assert await migrate.pending(connection) == []


async def test_a_text_that_was_changed_after_it_was_applied_is_refused(
    connection: asyncpg.Connection,
) -> None:
    await migrate.apply(connection)
    changed = MIGRATIONS[0]._replace(statements=MIGRATIONS[0].statements + "-- better")

    with pytest.raises(Corrupted, match="another text"):
        await migrate.pending(connection, [changed, *MIGRATIONS[1:]])


async def test_a_schema_that_is_newer_than_the_code_is_refused(
    connection: asyncpg.Connection, bare_url: str
) -> None:
    await migrate.apply(connection, [*MIGRATIONS, NEXT])
    store = PostgresStore(bare_url)

    with pytest.raises(Corrupted, match="start a newer server"):
        await store.queues()

    await store.close()


async def test_servers_that_start_at_once_apply_everything_once(bare_url: str) -> None:
    stores = [PostgresStore(bare_url) for _ in range(4)]

    found = await asyncio.gather(*(store.queues() for store in stores))

    assert found == [[]] * 4
    assert sorted(store.lane for store in stores) == [0, 1, 2, 3]
    await asyncio.gather(*(store.close() for store in stores))
