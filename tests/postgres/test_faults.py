"""Connections that die, and rows that somebody deletes by hand: the store goes on."""

import asyncio

import asyncpg
import pytest

from skep import Broker
from skep.errors import Closed, Conflict, NotFound, OutcomeUnknown, Unavailable
from skep.model.change import Applied, Change, Gone
from skep.model.consumer import ConsumerState
from skep.store.postgres.connections import split_url
from skep.store.postgres.sql import QUERIES
from skep.store.postgres.store import PostgresStore
from tests.support.broker_builders import drafts, payloads as delivered, pop, turn
from tests.support.postgres_databases import databases
from tests.support.store_builders import (
    append,
    appended,
    columns,
    commit_one,
    give_up,
    make_partition,
    make_queue,
    payloads,
    purge_all,
    push,
    push_ids,
    update,
)

END_OTHERS = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
   AND pid <> ALL ($1)
"""


LEFT_BEHIND = """
SELECT current_setting('lock_timeout') WHERE NOT EXISTS (SELECT FROM pg_prepared_statements)
"""

WAITING = """
SELECT count(*) FROM pg_locks
 WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))
"""


async def end_others(sql: asyncpg.Connection, *but: int) -> None:
    await sql.fetch(END_OTHERS, list(but))


@pytest.fixture
def helper() -> int:
    """The connection that empties the database for each test: it is to live on."""
    return databases().pid()


async def until_somebody_waits(sql: asyncpg.Connection) -> None:
    async with asyncio.timeout(5):
        while not await sql.fetchval(WAITING):
            await turn()


async def _lock(sql: asyncpg.Connection, partition: int) -> None:
    await sql.execute("SELECT FROM queen.partition WHERE number = $1 FOR UPDATE", partition)


async def test_a_connection_that_the_driver_refuses_to_use_is_replaced(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = await make_partition(store, await make_queue(store))
    await appended(store, push(alice, b"a"))

    async def refuse(*_: object, **__: object) -> None:
        monkeypatch.undo()
        raise asyncpg.InternalClientError("cannot switch to state 11; another is in progress")

    monkeypatch.setattr(asyncpg.Connection, "fetchval", refuse)
    where = await appended(store, push(alice, b"b"))

    assert list(where.offsets) == [1]


async def test_connections_that_died_while_nobody_used_them_are_replaced(
    store: PostgresStore, sql: asyncpg.Connection, helper: int
) -> None:
    alice = await make_partition(store, await make_queue(store))
    await appended(store, push(alice, b"a"))
    await end_others(sql, helper)

    where = await appended(store, push(alice, b"b"))

    assert where.offsets == [1]
    assert await payloads(store, alice) == [b"a", b"b"]


async def test_a_connection_that_dies_before_commit_has_written_nothing(
    store: PostgresStore, sql: asyncpg.Connection, helper: int
) -> None:
    alice = await make_partition(store, await make_queue(store))
    await appended(store, push(alice, b"a"))
    async with sql.transaction():
        await sql.execute("SELECT FROM queen.partition FOR UPDATE")
        waiting = asyncio.create_task(store.commit([push_ids(alice, "b")]))
        await until_somebody_waits(sql)
        await end_others(sql, helper)

        with pytest.raises(Unavailable):
            await waiting

    assert await payloads(store, alice) == [b"a"]
    assert (await appended(store, push(alice, b"c"))).offsets == [1]


async def test_a_connection_that_dies_under_a_push_in_one_statement_leaves_the_outcome_unknown(
    store: PostgresStore, sql: asyncpg.Connection, helper: int
) -> None:
    alice = await make_partition(store, await make_queue(store))
    await appended(store, push(alice, b"a"))
    async with sql.transaction():
        await sql.execute("SELECT FROM queen.partition FOR UPDATE")
        waiting = asyncio.create_task(store.commit([push(alice, b"b")]))
        await until_somebody_waits(sql)
        await end_others(sql, helper)

        with pytest.raises(OutcomeUnknown):
            await waiting

    assert (await appended(store, push(alice, b"c"))).offsets == [1]


async def test_an_answer_to_commit_that_is_lost_leaves_the_outcome_unknown(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = await make_partition(store, await make_queue(store))
    await appended(store, push(alice, b"a"))
    execute = asyncpg.Connection.execute

    async def lose(self: asyncpg.Connection, query: str, *args: object, **kw: object) -> str:
        status = await execute(self, query, *args, **kw)  # type: ignore[arg-type]
        if query == "COMMIT":
            raise ConnectionResetError
        return status

    with monkeypatch.context() as patch:
        patch.setattr(asyncpg.Connection, "execute", lose)
        with pytest.raises(OutcomeUnknown):
            await store.commit([push_ids(alice, "b")])

    assert await payloads(store, alice) == [b"a", b"b"]
    assert (await appended(store, push(alice, b"c"))).offsets == [2]


async def test_a_connection_that_the_driver_gave_up_while_nobody_used_it_is_replaced(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = await make_partition(store, await make_queue(store))
    await appended(store, push_ids(alice, "a"))
    execute = asyncpg.Connection.execute
    broken: list[asyncpg.Connection] = []

    async def refuse(self: asyncpg.Connection, query: str, *args: object, **kw: object) -> str:
        if not broken:
            broken.append(self)
            raise asyncpg.InternalClientError("cannot switch to state 15")
        return await execute(self, query, *args, **kw)  # type: ignore[arg-type]

    monkeypatch.setattr(asyncpg.Connection, "execute", refuse)

    assert (await appended(store, push_ids(alice, "b"))).offsets == [1]
    assert broken[0].is_closed()


async def test_a_lock_that_is_not_given_in_time_is_no_answer_and_no_end(
    store: PostgresStore, sql: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = await make_partition(store, await make_queue(store))
    quick = QUERIES["settings"].replace("'lock_timeout', '10s'", "'lock_timeout', '50ms'")
    monkeypatch.setitem(QUERIES, "settings", quick)
    async with sql.transaction():
        await sql.execute("SELECT FROM queen.partition FOR UPDATE")

        with pytest.raises(Unavailable):
            await store.commit([push(alice, b"a")])

    assert (await appended(store, push(alice, b"b"))).offsets == [0]


async def test_a_server_that_takes_no_transaction_is_unavailable_until_it_does(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = await make_partition(store, await make_queue(store))
    with monkeypatch.context() as patch:
        patch.setitem(QUERIES, "begin", "BEGIN; SELECT 1 / 0")

        with pytest.raises(Unavailable):
            await store.commit([push(alice, b"a")])

    assert (await appended(store, push(alice, b"b"))).offsets == [0]


async def test_a_cancelled_commit_leaves_a_store_that_goes_on(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    alice = await make_partition(store, await make_queue(store))
    async with sql.transaction():
        await sql.execute("SELECT FROM queen.partition FOR UPDATE")
        waiting = asyncio.create_task(store.commit([push(alice, b"a")]))
        await until_somebody_waits(sql)
        waiting.cancel()
        await asyncio.wait([waiting])

    assert (await appended(store, push(alice, b"b"))).offsets == [0]


async def test_a_server_that_cannot_be_reached_is_unavailable_until_it_can(url: str) -> None:
    store = PostgresStore("postgresql://nobody@127.0.0.1:1/nowhere")

    for _ in range(2):
        with pytest.raises(Unavailable):
            await store.queues()

    await store.close()


async def test_a_closed_store_says_so(store: PostgresStore) -> None:
    await store.queues()
    await store.close()

    with pytest.raises(Closed):
        await store.queues()


async def test_transactions_that_deadlock_are_tried_again(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    orders = await make_queue(store)
    alice, bob = await store.create_partitions(orders.number, ["alice", "bob"])
    await sql.execute("SET deadlock_timeout = '1h'")
    async with sql.transaction():
        await _lock(sql, bob.number)
        waiting = asyncio.create_task(store.commit([push(alice, b"a"), push(bob, b"b")]))
        await until_somebody_waits(sql)
        # Against the order that the store keeps: now each waits for the other.
        await _lock(sql, alice.number)

    done = await waiting

    assert all(isinstance(outcome, Applied) for outcome in done.outcomes)
    assert await payloads(store, bob) == [b"b"]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM queen.queues",
        "DELETE FROM queen.partitions",
        "DELETE FROM queen.lane",
        "DELETE FROM queen.lane_head",
        "DELETE FROM queen.segment",
        "DELETE FROM queen.consumer",
        "DELETE FROM queen.subscription",
        "DELETE FROM queen.transaction_id",
        "TRUNCATE queen.queue, queen.partition, queen.segment, queen.consumer",
    ],
)
async def test_a_deletion_by_hand_stops_nobody(
    queue: Broker, sql: asyncpg.Connection, statement: str
) -> None:
    await queue.push("orders", drafts(4))
    delivery = await pop(queue, batch=2)

    await sql.execute(statement)
    answers = await asyncio.gather(
        queue.ack(delivery),
        queue.push("orders", drafts(1)),
        queue.pop("orders"),
        return_exceptions=True,
    )

    refusals = [answer for answer in answers if isinstance(answer, BaseException)]
    assert all(isinstance(refusal, Conflict | NotFound) for refusal in refusals), refusals
    await queue.push("other", drafts(2))
    assert delivered(await pop(queue, "other", batch=2)) == [b"0", b"1"]


async def test_changes_for_rows_that_were_deleted_by_hand_are_refused(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    alice = await make_partition(store, await make_queue(store))
    await appended(store, push(alice, b"a"))
    await sql.execute("DELETE FROM queen.partition")

    outcomes = [
        await commit_one(store, push(alice, b"b")),
        await commit_one(store, Change(consumers=(update(alice, 0, ConsumerState(version=1)),))),
    ]

    assert outcomes == [Gone(), Gone()]


async def test_a_head_that_was_deleted_is_found_again(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    orders = await make_queue(store)
    alice = await make_partition(store, orders)
    await appended(store, push(alice, b"a", b"b"))
    await sql.execute("DELETE FROM queen.lane_head")

    await appended(store, push(alice, b"c"))

    assert await store.heads(orders.number) == {store.lane: 3}


async def test_a_damaged_segment_fails_the_change_that_needs_it_and_no_other(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    alice = await make_partition(store, await make_queue(store))
    await appended(store, push(alice, b"a"))
    await sql.execute("UPDATE queen.segment SET messages = 5")

    done = await store.commit(
        [
            Change(dead_letters=(give_up(alice, 0),)),
            Change(appends=(append(alice, columns(b"b")),)),
        ]
    )

    assert [type(outcome).__name__ for outcome in done.outcomes] == ["Unreadable", "Applied"]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://h/d", ("postgresql://h/d", False)),
        ("postgresql://h/d?pooled=yes", ("postgresql://h/d", True)),
        ("postgres://h/d?pooled=no&ssl=require", ("postgres://h/d?ssl=require", False)),
        ("postgresql:///d?host=/tmp/x", ("postgresql:///d?host=%2Ftmp%2Fx", False)),
        ("postgresql://u:p%2F@/d?host=/tmp/x", ("postgresql://u:p%2F@/d?host=%2Ftmp%2Fx", False)),
    ],
)
def test_a_url_says_whether_there_is_a_pooler(url: str, expected: tuple[str, bool]) -> None:
    assert split_url(url) == expected


async def test_a_store_behind_a_pooler_leaves_nothing_on_a_connection(url: str) -> None:
    store = PostgresStore(url + ("&" if "?" in url else "?") + "pooled=yes")
    alice = await make_partition(store, await make_queue(store))

    await appended(store, push_ids(alice, "a", "b"))

    assert (await appended(store, push_ids(alice, "b", "c"))).offsets == [1, 2]
    database = await store._session.connections()
    assert await database.read(lambda connection: connection.fetchval(LEFT_BEHIND)) == "0"
    await store.close()


async def test_segments_whose_partition_was_deleted_by_hand_go_with_their_queue(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    alice = await make_partition(store, await make_queue(store))
    bob = await make_partition(store, await make_queue(store, "other"))
    await store.commit([push(alice, b"a"), push(bob, b"b")])
    await sql.execute("DELETE FROM queen.partition WHERE number = $1", alice.number)

    await store.delete_queue(alice.queue)
    await purge_all(store)

    assert [row[0] for row in await sql.fetch("SELECT queue FROM queen.segment")] == [bob.queue]
