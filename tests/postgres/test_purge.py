"""How the rows of deleted queues and groups leave PostgreSQL, and which rows do not."""

import asyncio
from contextlib import suppress

import asyncpg
import pytest

from skep.errors import Unavailable
from skep.model.change import Change
from skep.model.consumer import ConsumerState
from skep.model.queue import Partition, Queue, Subscription
from skep.store.postgres.purge import ROWS
from skep.store.postgres.store import PostgresStore
from skep.store.protocol import StoredConsumer
from tests.support.store_builders import (
    appended,
    commit_one,
    crowd,
    give_up,
    make_partition,
    make_queue,
    purge_all,
    push_ids,
    update,
)

OF_QUEUES = ("partition", "segment", "transaction_id", "consumer", "dead_letter", "subscription")
"""Tables with rows of queues."""


async def rows_left(sql: asyncpg.Connection) -> set[str]:
    """Tables that have rows of queues."""
    counts = {
        table: await sql.fetchval(f"SELECT count(*) FROM queen.{table}")  # noqa: S608
        for table in OF_QUEUES
    }
    return {table for table, count in counts.items() if count}


async def fill(store: PostgresStore) -> Partition:
    """A partition of a queue that has rows in every table."""
    alice = await make_partition(store, await make_queue(store))
    await appended(store, push_ids(alice, "a"))
    state = update(alice, 0, ConsumerState(version=1))
    await commit_one(store, Change(consumers=(state,), dead_letters=(give_up(alice, 0),)))
    return alice


async def test_a_start_does_not_wait_for_what_a_queue_that_sql_deleted_leaves(
    store: PostgresStore, sql: asyncpg.Connection, url: str
) -> None:
    await fill(store)
    await sql.execute("DELETE FROM queen.queues")

    later = PostgresStore(url)
    await later.queues()

    assert {"partition", "segment", "transaction_id"} < await rows_left(sql)
    await purge_all(later)
    assert await rows_left(sql) == set()
    await later.close()


async def test_rows_whose_queue_is_missing_and_was_not_deleted_are_kept(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    await fill(store)
    async with sql.transaction():
        # As a restore does that leaves a table out.
        await sql.execute("SET LOCAL session_replication_role = replica")
        await sql.execute("DELETE FROM queen.queue")

    assert not await store.purge()
    assert await rows_left(sql) == set(OF_QUEUES)


async def test_a_queue_that_exists_is_not_removed_although_it_is_listed(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    alice = await fill(store)
    await sql.execute("INSERT INTO queen.queue_removal (queue) VALUES ($1)", alice.queue)

    assert not await store.purge()
    assert await rows_left(sql) == set(OF_QUEUES)


async def test_rows_without_a_queue_are_removed_when_they_are_listed(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    alice = await fill(store)
    await sql.execute("DELETE FROM queen.queue")
    await sql.execute("DELETE FROM queen.queue_removal")

    assert not await store.purge()
    await sql.execute("INSERT INTO queen.queue_removal (queue) VALUES ($1)", alice.queue)
    await purge_all(store)

    assert await rows_left(sql) == set()


async def test_a_deleted_queue_is_listed_for_a_minute_and_then_looked_at_once_more(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    alice = await fill(store)
    await store.delete_queue(alice.queue)
    await purge_all(store)
    # By a statement that began before the queue was deleted.
    await sql.execute(
        "INSERT INTO queen.lane_head (queue, lane, position) VALUES ($1, 7, 7)", alice.queue
    )

    assert not await store.purge()
    await sql.execute("UPDATE queen.queue_removal SET deleted_at = now() - interval '61 s'")
    await purge_all(store)

    assert await sql.fetchval("SELECT count(*) FROM queen.lane_head") == 0
    assert await sql.fetchval("SELECT count(*) FROM queen.queue_removal") == 0


async def test_a_removal_that_another_server_is_at_is_left_to_it_and_taken_over_when_it_is_gone(
    store: PostgresStore, sql: asyncpg.Connection, url: str
) -> None:
    alice = await fill(store)
    await store.delete_queue(alice.queue)
    other = PostgresStore(url)

    async with sql.transaction():
        await sql.fetch("SELECT FROM queen.queue_removal FOR UPDATE")
        assert not await other.purge()
    await purge_all(other)

    assert await rows_left(sql) == set()
    await other.close()


async def test_two_servers_remove_a_queue_together(
    store: PostgresStore, sql: asyncpg.Connection, url: str
) -> None:
    queue = await crowd(store, "orders", 1500)
    other = PostgresStore(url)
    await store.delete_queue(queue.number)

    while await store.purge() or await other.purge():
        pass

    assert await rows_left(sql) == set()
    await other.close()


async def test_a_step_that_was_not_committed_is_done_again(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    queue = await crowd(store, "orders", 1500)
    await store.delete_queue(queue.number)
    database = await store._session.connections()

    class Lost(Exception):
        pass

    async def fail(connection: asyncpg.Connection) -> None:
        await store._purger.queues._step(connection)
        raise Lost

    with pytest.raises(Lost):
        await database.write(fail)
    await purge_all(store)

    assert await rows_left(sql) == set()


# Groups.

MANY = 2500
STATES = "SELECT count(*) FROM queen.consumer"
LISTED = "SELECT count(*) FROM queen.group_removal"
MINUTE_LATER = "UPDATE queen.group_removal SET listed_at = now() - interval '61 s'"
CURSORS = [StoredConsumer(number, "crowd", ConsumerState(version=1)) for number in range(MANY)]


async def first_contact(store: PostgresStore, queue: Queue, identity: str = "1st") -> bool:
    subscription = Subscription(
        id=identity, queue=queue.number, group="crowd", mode="new", from_at=None, created_at=0
    )
    return await store.subscribe(subscription, CURSORS)


async def test_states_of_a_deleted_group_are_removed_in_steps_by_any_server(
    store: PostgresStore, sql: asyncpg.Connection, url: str
) -> None:
    queue = await make_queue(store)
    await first_contact(store, queue)

    await store.delete_group(queue.number, "crowd")

    assert await sql.fetchval(STATES) == MANY
    other = PostgresStore(url)
    assert await purge_all(other) > MANY / ROWS
    assert await sql.fetchval(STATES) == 0
    await other.close()


async def test_states_of_a_group_that_sql_deleted_are_removed(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    await first_contact(store, await make_queue(store))

    await sql.execute("DELETE FROM queen.subscription WHERE consumer_group = 'crowd'")
    await purge_all(store)

    assert await sql.fetchval(STATES) == 0


async def test_a_deleted_group_is_listed_for_a_minute_and_then_looked_at_once_more(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    queue = await make_queue(store)
    await first_contact(store, queue)
    await sql.execute("CREATE TABLE late AS SELECT * FROM queen.consumer LIMIT 1")
    await store.delete_group(queue.number, "crowd")
    await purge_all(store)
    # By a statement that began before the group was deleted.
    await sql.execute("INSERT INTO queen.consumer SELECT * FROM late")

    assert not await store.purge()
    await sql.execute(MINUTE_LATER)
    await purge_all(store)

    assert await sql.fetchval(STATES) == 0
    assert await sql.fetchval(LISTED) == 0


async def test_states_of_a_group_that_exists_are_not_removed_although_it_is_listed(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    await first_contact(store, await make_queue(store))
    await sql.execute(
        "INSERT INTO queen.group_removal (queue, consumer_group, subscription)"
        " SELECT queue, consumer_group, id FROM queen.subscription"
    )

    assert not await store.purge()
    assert await sql.fetchval(STATES) == MANY


async def interrupt_first_contact(store: PostgresStore, sql: asyncpg.Connection) -> Queue:
    """Let a server end while it writes the first states of a group."""
    queue = await make_queue(store)
    starting = asyncio.ensure_future(first_contact(store, queue))
    while not await sql.fetchval(STATES):
        assert not starting.done()
    starting.cancel()
    with suppress(asyncio.CancelledError):
        await starting
    assert 0 < await sql.fetchval(STATES) < MANY
    return queue


async def test_states_of_a_first_contact_that_was_interrupted_are_removed_after_a_minute(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    await interrupt_first_contact(store, sql)

    assert not await store.purge()
    await sql.execute(MINUTE_LATER)
    await purge_all(store)

    assert await sql.fetchval(STATES) == 0
    assert await sql.fetchval(LISTED) == 0


async def test_a_first_contact_whose_states_are_being_removed_is_refused(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    queue = await make_queue(store)
    await sql.execute(
        "CREATE FUNCTION give_up() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN NEW.starting = false; RETURN NEW; END $$;"
        "CREATE TRIGGER give_up BEFORE INSERT ON queen.group_removal"
        " FOR EACH ROW EXECUTE FUNCTION give_up()"
    )

    try:
        with pytest.raises(Unavailable):
            await first_contact(store, queue)
    finally:
        await sql.execute("DROP FUNCTION give_up CASCADE")

    assert await sql.fetchval(STATES) == 0
