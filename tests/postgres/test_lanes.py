"""Several servers on one database: each has its lane, and none writes into another's."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from skep.model.change import Applied
from skep.store.postgres.store import PostgresStore
from tests.store.build import (
    appended,
    make_partition,
    make_queue,
    payloads,
    push,
    push_ids,
)


@pytest.fixture
async def second(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url)
    yield store
    await store.close()


async def test_two_servers_have_two_lanes_and_one_order_of_offsets(
    store: PostgresStore, second: PostgresStore
) -> None:
    orders = await make_queue(store)
    alice = await make_partition(store, orders)

    done = await asyncio.gather(
        *(server.commit([push(alice, b"x")]) for _ in range(20) for server in (store, second))
    )

    offsets = [c.outcomes[0].appended[0].offsets[0] for c in done]  # type: ignore[union-attr]
    assert sorted(offsets) == list(range(40))
    assert await store.heads(orders.number) == {store.lane: 20, second.lane: 20}
    assert store.lane != second.lane


async def test_the_same_id_pushed_through_two_servers_at_once_is_one_message(
    store: PostgresStore, second: PostgresStore
) -> None:
    alice = await make_partition(store, await make_queue(store))
    ids = [f"id-{n}" for n in range(50)]

    await asyncio.gather(
        *(server.commit([push_ids(alice, *ids)]) for server in (store, second, store, second))
    )

    assert await payloads(store, alice) == [chosen.encode() for chosen in ids]


async def test_a_lane_that_was_given_back_is_taken_by_the_next(
    store: PostgresStore, url: str
) -> None:
    await store.queues()
    lane = store.lane
    await store.close()

    later = PostgresStore(url)
    await later.queues()

    assert later.lane == lane
    await later.close()


async def test_a_lane_whose_holder_is_silent_is_taken_over_and_he_takes_another(
    store: PostgresStore, second: PostgresStore, sql: asyncpg.Connection
) -> None:
    orders = await make_queue(store)
    alice = await make_partition(store, orders)
    await appended(store, push(alice, b"a"))
    lost = store.lane
    await sql.execute("UPDATE queen.lane SET expires_at = '-infinity'")

    await appended(second, push(alice, b"b"))
    where = await appended(store, push(alice, b"c"))

    assert second.lane == lost
    assert store.lane != lost
    assert where.offsets == [2]
    assert await store.heads(orders.number) == {lost: 2, store.lane: 1}


async def test_a_lane_in_use_is_renewed(
    store: PostgresStore, sql: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = await make_partition(store, await make_queue(store))
    await sql.execute("UPDATE queen.lane SET expires_at = '-infinity'")
    monkeypatch.setattr("skep.store.postgres.lane._RENEW_AFTER", -1)

    await appended(store, push(alice, b"a"))

    assert await sql.fetchval("SELECT expires_at > now() FROM queen.lane")


async def test_a_commit_of_every_kind_leaves_outcomes_in_order(
    store: PostgresStore, second: PostgresStore
) -> None:
    alice = await make_partition(store, await make_queue(store))

    first, then = await asyncio.gather(
        store.commit([push_ids(alice, "a"), push_ids(alice, "b")]),
        second.commit([push_ids(alice, "b"), push_ids(alice, "a")]),
    )

    assert all(isinstance(outcome, Applied) for outcome in (*first.outcomes, *then.outcomes))
    assert len(await payloads(store, alice)) == 2
