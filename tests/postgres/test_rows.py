"""What PostgreSQL makes of our rows: in place, compressed, and any text."""

import asyncpg
import pytest
from hypothesis import given, strategies as st

from skep import Broker
from skep.model.queue import Queue
from skep.store.postgres.store import PostgresStore
from skep.store.postgres.text import from_text, to_text
from tests.broker.build import drafts, pop
from tests.store.build import entries, make_partition, make_queue, push_ids


@given(st.text(st.sampled_from("a0\x00\ue000")))
def test_any_text_comes_back_and_none_has_a_zero_character(text: str) -> None:
    kept = to_text(text)

    assert from_text(kept) == text
    assert "\x00" not in kept


async def test_pops_and_acks_update_consumers_in_place(
    queue: Broker, store: PostgresStore, sql: asyncpg.Connection
) -> None:
    await queue.push("orders", drafts(40))
    await queue.pop("orders", batch=1, auto_ack=True)
    before = await _updates(sql, "consumer")

    for _ in range(15):
        await queue.ack(await pop(queue))

    await store.close()
    updated, in_place = await _updates(sql, "consumer")
    assert updated - before[0] == 30
    assert in_place - before[1] == 30


async def test_pushes_update_partitions_in_place(
    queue: Broker, store: PostgresStore, sql: asyncpg.Connection
) -> None:
    before = await _updates(sql, "partition")

    for _ in range(15):
        await queue.push("orders", drafts(1))

    await store.close()
    updated, in_place = await _updates(sql, "partition")
    assert (updated - before[0], in_place - before[1]) == (15, 15)


async def test_ids_that_nobody_chose_cost_nothing(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    alice = await make_partition(store, await make_queue(store))

    await store.commit([push_ids(alice, None, None), push_ids(alice, "a", None)])

    assert await sql.fetchval("SELECT count(*) FROM queen.transaction_id") == 1
    assert [entry.chosen_id for entry in await entries(store, alice)] == [None, None, "a", None]


async def test_a_hundred_messages_are_one_row(queue: Broker, sql: asyncpg.Connection) -> None:
    await queue.push("orders", drafts(100))

    assert await sql.fetchval("SELECT count(*) FROM queen.segment") == 1
    assert await sql.fetchval("SELECT count(*) FROM queen.messages") == 100


@pytest.mark.parametrize("name", ["payloads", "transaction_ids"])
async def test_columns_are_compressed_by_the_best_that_the_server_has(
    queue: Broker, sql: asyncpg.Connection, name: str
) -> None:
    known = await sql.fetchval(
        "SELECT enumvals FROM pg_settings WHERE name = 'default_toast_compression'"
    )

    method = await sql.fetchval(
        "SELECT attcompression FROM pg_attribute"
        " WHERE attrelid = 'queen.segment'::regclass AND attname = $1",
        name,
    )

    assert method == (b"l" if "lz4" in known else b"\x00")


async def test_a_queue_that_sql_has_configured_is_read_so(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    await store.put_queue(Queue(number=0, name="orders"))

    await sql.execute("UPDATE queen.queues SET max_queue_size = 10000 WHERE name = 'orders'")

    (found,) = await store.queues()
    assert found.options.max_size == 10_000


async def _updates(sql: asyncpg.Connection, table: str) -> tuple[int, int]:
    await sql.execute("SELECT pg_stat_clear_snapshot()")
    row = await sql.fetchrow(
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables"
        " WHERE schemaname = 'queen' AND relname = $1",
        table,
    )
    assert row
    return row[0], row[1]
