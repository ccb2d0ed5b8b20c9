"""Pushes by memory: as good as under locks, whatever others have done in the meantime."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from skep.model.change import Applied, Change, Gone, IdempotencyKey
from skep.model.queue import Partition, Queue
from skep.store.postgres.store import PostgresStore
from tests.support.store_builders import (
    appended,
    commit_one,
    fresh,
    make_partition,
    make_queue,
    payloads,
    push,
    push_ids,
    truncate_all,
)

NEXT_TRANSACTION = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text"
"""The number of the next transaction that writes."""


@pytest.fixture
async def orders(store: PostgresStore) -> Queue:
    return await make_queue(store)


@pytest.fixture
async def alice(store: PostgresStore, orders: Queue) -> Partition:
    """A partition that the store has just pushed to."""
    partition = await make_partition(store, orders)
    await appended(store, push(partition, b"first"))
    return partition


@pytest.fixture
async def second(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url)
    yield store
    await store.close()


async def test_a_push_to_a_partition_that_is_remembered_needs_one_statement(
    store: PostgresStore, alice: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skep.store.postgres.store.read_snapshot", None)

    where = [
        await appended(store, push(alice, b"a", b"b")),
        await appended(store, push(alice, b"c")),
    ]

    assert [each.offsets for each in where] == [[1, 2], [3]]
    assert await store.heads(alice.queue) == {store.lane: 4}
    assert await payloads(store, alice) == [b"first", b"a", b"b", b"c"]


async def test_a_push_needs_one_statement_although_old_messages_are_being_removed(
    store: PostgresStore, alice: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(10):
        await appended(store, push(alice, b"x"))
    monkeypatch.setattr("skep.store.postgres.store.read_snapshot", None)

    await asyncio.gather(
        *(
            work
            for before in range(1, 11)
            for work in (
                store.truncate(alice.queue, alice.number, before, kind="retention"),
                store.commit([push(alice, b"y")]),
            )
        )
    )

    assert await payloads(store, await fresh(store, alice)) == [b"x"] + [b"y"] * 10


async def test_what_another_server_pushed_is_not_overwritten(
    store: PostgresStore, second: PostgresStore, alice: Partition
) -> None:
    for server in (second, store, second, store):
        await appended(server, push(alice, b"x"))

    assert (await fresh(store, alice)).end == 5
    assert await store.heads(alice.queue) == {store.lane: 3, second.lane: 2}


async def test_pushes_by_memory_and_under_locks_have_one_order(
    store: PostgresStore, second: PostgresStore, alice: Partition
) -> None:
    await asyncio.gather(
        *(server.commit([push(alice, b"x")]) for _ in range(20) for server in (store, second)),
        *(
            server.commit([push_ids(alice, f"{n}")])
            for n in range(20)
            for server in (store, second)
        ),
    )

    assert len(await payloads(store, alice)) == (await fresh(store, alice)).end == 61


async def test_a_partition_that_was_emptied_begins_with_what_is_pushed_then(
    store: PostgresStore, second: PostgresStore, alice: Partition
) -> None:
    await truncate_all(second, alice, 1)

    await appended(store, push(alice, b"a"))

    now = await fresh(store, alice)
    assert (now.start, now.end, now.first_at) == (1, 2, now.newest_at)


@pytest.mark.parametrize("table", ["queue", "partition"])
async def test_what_is_gone_is_gone_although_it_is_remembered(
    store: PostgresStore, sql: asyncpg.Connection, alice: Partition, table: str
) -> None:
    await sql.execute(f"TRUNCATE queen.{table}")

    assert await commit_one(store, push(alice, b"a")) == Gone()


async def test_a_lane_that_was_taken_over_is_not_written_to_from_memory(
    store: PostgresStore, second: PostgresStore, sql: asyncpg.Connection, alice: Partition
) -> None:
    lost = store.lane
    await sql.execute("UPDATE queen.lane SET expires_at = '-infinity'")
    await second.queues()

    await appended(store, push(alice, b"a"))

    assert second.lane == lost
    assert await store.heads(alice.queue) == {lost: 1, store.lane: 1}


async def test_a_repetition_writes_nothing_without_a_synchronous_standby(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    change = Change(key=IdempotencyKey(name="pay-1", fingerprint=b"1"))
    await store.commit([change])
    before = await sql.fetchval(NEXT_TRANSACTION)

    repeated, empty = (await store.commit([change, Change()])).outcomes

    assert isinstance(repeated, Applied)
    assert repeated.repeated
    assert isinstance(empty, Applied)
    assert await sql.fetchval(NEXT_TRANSACTION) == before
