"""The schema: applied once, in order, by whoever comes first; never by who does not know it."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from skep.errors import Corrupted, Invalid, Unavailable
from skep.store.postgres import migrate
from skep.store.postgres.migrate import MIGRATIONS, Migration
from skep.store.postgres.store import PostgresStore

NEXT = Migration(len(MIGRATIONS) + 1, "one_more", "CREATE TABLE queen.one_more (n integer);")
BROKEN = Migration(len(MIGRATIONS) + 1, "broken", "CREATE TABLE queen.half (); SELECT 1 / 0;")
LOCKING = Migration(
    len(MIGRATIONS) + 1,
    "locking",
    "CREATE TABLE queen.half (); LOCK TABLE queen.messages IN ACCESS EXCLUSIVE MODE;",
)
WAITED = Migration(
    len(MIGRATIONS) + 1,
    "waited",
    """
    CREATE TABLE queen.waited AS
    SELECT w.setting::integer AS wait, d.setting::integer AS deadlock
      FROM pg_settings AS w, pg_settings AS d
     WHERE w.name = 'lock_timeout' AND d.name = 'deadlock_timeout'
    """,
)
CONTENTS = """
SELECT relname::text FROM pg_class WHERE relnamespace = 'queen'::regnamespace
 UNION ALL
SELECT proname::text FROM pg_proc WHERE pronamespace = 'queen'::regnamespace
 ORDER BY 1
"""
WAITING = "SELECT FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'"


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


async def test_a_first_start_that_fails_leaves_no_schema_behind(
    connection: asyncpg.Connection,
) -> None:
    with pytest.raises(asyncpg.DivisionByZeroError):
        await migrate.apply(connection, [*MIGRATIONS, BROKEN])

    assert await connection.fetchval("SELECT to_regnamespace('queen')") is None


@pytest.mark.parametrize(
    ("statements", "named"),
    [
        ("CREATE TABLE queen.queues (id uuid); CREATE TABLE queen.messages (id uuid)", "messages"),
        ("CREATE TABLE queen.migration (id integer)", "migration"),
        ("CREATE FUNCTION queen.push_message() RETURNS integer RETURN 1", "push_message()"),
        ("CREATE SEQUENCE queen.steps", "steps"),
    ],
)
async def test_a_schema_of_another_program_is_refused_and_left_as_it_is(
    connection: asyncpg.Connection, bare_url: str, statements: str, named: str
) -> None:
    await connection.execute(f"CREATE SCHEMA queen; {statements}")
    before = await connection.fetch(CONTENTS)
    store = PostgresStore(bare_url)

    with pytest.raises(Invalid) as refused:
        await store.queues()

    await store.close()
    assert refused.value.field == "store"
    assert named in refused.value.reason
    assert "use another database" in refused.value.reason
    assert await connection.fetch(CONTENTS) == before


async def test_what_another_program_keeps_beside_our_tables_is_named_and_left_as_it_is(
    connection: asyncpg.Connection, bare_url: str
) -> None:
    await migrate.apply(connection, MIGRATIONS[:1])
    await connection.execute("CREATE TABLE queen.queues (id uuid)")
    before = await connection.fetch(CONTENTS)
    store = PostgresStore(bare_url)

    with pytest.raises(Invalid, match=r'"queues" already exists.*use another database'):
        await store.queues()

    await store.close()
    assert await connection.fetch(CONTENTS) == before


async def test_a_migration_waits_for_a_lock_until_an_autovacuum_was_ended_for_it(
    connection: asyncpg.Connection,
) -> None:
    await migrate.apply(connection, [*MIGRATIONS, WAITED])

    assert await connection.fetchval("SELECT wait - deadlock FROM queen.waited") == 500


async def test_an_empty_schema_is_taken(connection: asyncpg.Connection) -> None:
    await connection.execute("CREATE SCHEMA queen")

    assert await migrate.apply(connection) == MIGRATIONS


class Held:
    """A transaction that has read a view, and stays open: a report, or a dump."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self._transaction = connection.transaction()

    async def begin(self) -> None:
        await self._transaction.start()
        await self._connection.fetch("SELECT FROM queen.messages")

    async def end(self) -> None:
        await self._transaction.rollback()


@pytest.fixture
async def held(connection: asyncpg.Connection, bare_url: str) -> AsyncIterator[Held]:
    """On a database that has all migrations; the next one wants a lock that conflicts."""
    await migrate.apply(connection)
    other = await asyncpg.connect(bare_url, server_settings={"application_name": "report"})
    held = Held(other)
    await held.begin()
    yield held
    await other.close()


async def test_others_are_not_held_up_by_a_migration_that_waits_for_a_lock(
    connection: asyncpg.Connection, held: Held, bare_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    migrating = asyncio.create_task(migrate.apply(connection, [*MIGRATIONS, LOCKING]))
    other = await asyncpg.connect(bare_url)
    while not await other.fetch(WAITING):  # noqa: ASYNC110 - nothing announces it
        await asyncio.sleep(0.01)

    # It stands in line behind the migration, which stands behind the transaction that is open.
    await other.fetch("SELECT FROM queen.messages", timeout=5)

    await other.close()
    while "(report)" not in caplog.text:  # noqa: ASYNC110 - nothing announces it
        await asyncio.sleep(0.01)
    assert not migrating.done()
    await held.end()
    assert await migrating == [LOCKING]


async def test_a_migration_that_gets_no_lock_names_its_holder_and_leaves_nothing(
    connection: asyncpg.Connection, held: Held
) -> None:
    with pytest.raises(Unavailable, match=r"process \d+ \(report\)"):
        await migrate.apply(connection, [*MIGRATIONS, LOCKING], patience=0)

    assert await migrate.pending(connection, [*MIGRATIONS, LOCKING]) == [LOCKING]


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
