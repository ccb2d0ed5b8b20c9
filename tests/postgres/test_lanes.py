"""Several servers on one database: each has its lane, and of two that want the same one gets it."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest
from msgspec.structs import replace

from skep.model.change import Applied, Change
from skep.model.consumer import ConsumerState
from skep.store.postgres.store import PostgresStore
from tests.support.store_builders import (
    append,
    appended,
    columns,
    commit_one,
    consumer,
    key,
    make_partition,
    make_queue,
    payloads,
    push,
    push_ids,
    update,
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


async def test_of_two_servers_that_take_the_same_state_one_is_stale(
    store: PostgresStore, second: PostgresStore
) -> None:
    alice = await make_partition(store, await make_queue(store))

    for version in range(5):
        taking = Change(consumers=(update(alice, version, ConsumerState(version=version + 1)),))
        outcomes = await asyncio.gather(commit_one(store, taking), commit_one(second, taking))

        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Applied", "Stale"]


async def test_a_change_with_a_key_that_two_servers_get_at_once_happens_once(
    store: PostgresStore, second: PostgresStore
) -> None:
    alice = await make_partition(store, await make_queue(store))
    once = Change(appends=(append(alice, columns(b"a")),), key=key())

    outcomes = await asyncio.gather(commit_one(store, once), commit_one(second, once))

    assert {outcome.repeated for outcome in outcomes if isinstance(outcome, Applied)} == {
        False,
        True,
    }
    assert await payloads(store, alice) == [b"a"]


async def test_transactions_over_the_same_partitions_in_any_order_all_go_through(
    store: PostgresStore, second: PostgresStore
) -> None:
    orders = await make_queue(store)
    alice, bob = await store.create_partitions(orders.number, ["alice", "bob"])

    await asyncio.gather(
        *(store.commit([push(alice, b"x"), push(bob, b"x")]) for _ in range(20)),
        *(second.commit([push(bob, b"x"), push(alice, b"x")]) for _ in range(20)),
    )

    assert [len(await payloads(store, each)) for each in (alice, bob)] == [40, 40]


async def test_servers_that_make_the_same_partitions_at_once_make_them_once(
    store: PostgresStore, second: PostgresStore
) -> None:
    orders = await make_queue(store)
    names = [f"p{n}" for n in range(50)]

    made = await asyncio.gather(
        store.create_partitions(orders.number, names),
        second.create_partitions(orders.number, names[::-1]),
    )

    assert made[0] == made[1][::-1]


async def test_asking_for_partitions_that_exist_takes_no_numbers(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    orders = await make_queue(store)
    await store.create_partitions(orders.number, ["alice", "bob"])
    before = await sql.fetchval("SELECT last_value FROM queen.number")

    await store.create_partitions(orders.number, ["alice", "bob", "carol"])

    assert await sql.fetchval("SELECT last_value FROM queen.number") == before + 1


async def test_a_state_of_a_subscription_that_is_no_more_does_not_count(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    alice = await make_partition(store, await make_queue(store))
    await commit_one(
        store, Change(consumers=(update(alice, 0, ConsumerState(version=1, cursor=9)),))
    )
    await sql.execute("UPDATE queen.subscription SET id = 'later'")
    fresh = replace(update(alice, 0, ConsumerState(version=1)), subscription="later")

    before = await consumer(store, alice)
    outcome = await commit_one(store, Change(consumers=(fresh,)))

    assert (before, outcome) == (None, Applied())
    assert await consumer(store, alice) == ConsumerState(version=1)
