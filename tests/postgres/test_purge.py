"""How the rows of deleted queues leave PostgreSQL, and which rows do not."""

import asyncpg
import pytest

from skep.model.change import Change
from skep.model.consumer import Consumer
from skep.model.queue import Partition
from skep.store.postgres.store import PostgresStore
from tests.store.build import (
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
    state = update(alice, 0, Consumer(version=1))
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
    database = await store._db()

    class Lost(Exception):
        pass

    async def fail(connection: asyncpg.Connection) -> None:
        await store._purger._step(connection)
        raise Lost

    with pytest.raises(Lost):
        await database.write(fail)
    await purge_all(store)

    assert await rows_left(sql) == set()
