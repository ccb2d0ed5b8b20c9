"""What PostgreSQL makes of our rows: in place, compressed, and any text."""

import json
from typing import Any

import asyncpg
import pytest
from hypothesis import given, strategies as st

from skep import Broker
from skep.model.name import QUEUE_MODE
from skep.model.queue import Queue
from skep.store.postgres.nul_text import from_text, to_text
from skep.store.postgres.sql import QUERIES
from skep.store.postgres.store import PostgresStore
from tests.support.broker_builders import drafts, pop
from tests.support.store_builders import entries, make_partition, make_queue, push_ids


@given(st.text(st.sampled_from("a0\x00\ue000")))
def test_any_text_comes_back_and_none_has_a_zero_character(text: str) -> None:
    kept = to_text(text)

    assert from_text(kept) == text
    assert "\x00" not in kept


async def test_pushes_pops_and_acks_update_no_row(
    queue: Broker, store: PostgresStore, sql: asyncpg.Connection
) -> None:
    await queue.push("orders", drafts(40))
    await queue.pop("orders", batch=1, auto_ack=True)
    before = await _updates(sql)

    for _ in range(15):
        await queue.push("orders", drafts(1))
        await queue.ack(await pop(queue))

    await store.close()
    assert await _updates(sql) == before


async def test_nothing_takes_longer_while_somebody_holds_a_snapshot(
    queue: Broker, url: str, sql: asyncpg.Connection
) -> None:
    await queue.push("orders", drafts(1))
    await queue.ack(await pop(queue))
    other = await asyncpg.connect(url)
    try:
        await other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        before = await _pages(sql)
        for _ in range(300):
            await queue.push("orders", drafts(1))
            await queue.ack(await pop(queue))
        after = await _pages(sql)
    finally:
        await other.close()

    # An index may be a level deeper by now.
    assert {name: pages for name, pages in after.items() if pages > before[name] + 8} == {}


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


async def _updates(sql: asyncpg.Connection) -> dict[str, int]:
    """How many rows were updated, by table."""
    await sql.execute("SELECT pg_stat_clear_snapshot()")
    found = await sql.fetch(
        "SELECT relname, n_tup_upd FROM pg_stat_user_tables WHERE schemaname = 'queen'"
        " AND relname IN ('partition', 'consumer', 'lane_head', 'segment', 'subscription')"
    )
    return {row[0]: row[1] for row in found}


async def _pages(sql: asyncpg.Connection) -> dict[str, int]:
    """How many pages PostgreSQL looks at to find what a commit needs."""
    queue = await sql.fetchval("SELECT number FROM queen.queue")
    partition = await sql.fetchval("SELECT number FROM queen.partition")
    arguments: dict[str, tuple[Any, ...]] = {
        "locked_partitions": (0, [partition]),
        "read_consumers": ([queue], [QUEUE_MODE], [partition]),
        "heads": (queue,),
        "peer_event_heads": (),
        "first_kept": (partition,),
    }
    return {name: await _pages_of(sql, name, *each) for name, each in arguments.items()}


async def _pages_of(sql: asyncpg.Connection, name: str, *arguments: Any) -> int:
    async with sql.transaction():
        await sql.fetch(QUERIES["settings"], True)
        statement = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {QUERIES[name].rstrip(';')}"
        # The first time it looks at the catalogue, too.
        await sql.fetchval(statement, *arguments)
        (plan,) = json.loads(await sql.fetchval(statement, *arguments))
    return int(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])
