"""Pushing from an application's own transaction: in order, exactly once, whoever dies."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from skep import Broker, KeyRing, Limits
from skep.model.change import Change, Stale
from skep.store.postgres.leader import LeaderTable
from skep.store.postgres.store import PostgresStore
from tests.support.broker_builders import (
    PATIENCE,
    drafts,
    finish,
    long_poll,
    make_broker,
    payloads,
    pop,
    turn,
    until,
)
from tests.support.postgres_databases import databases

PAGE = Path(__file__).parents[2] / "docs/how-to/outbox.md"
RING = KeyRing({"2030": bytes(range(32))}, current="2030")

TEXT = "SELECT queen.enqueue($1, $2, $3::text, $4)"
BYTES = "SELECT queen.enqueue($1, $2, $3::bytea)"
WAITING = "SELECT count(*) FROM queen.outbox WHERE failed_at IS NULL"
END_OTHERS = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
   AND pid <> ALL ($1)
"""
REFUSED = "SELECT error FROM queen.outbox WHERE failed_at IS NOT NULL ORDER BY number"


@pytest.fixture
async def other(url: str, queue: Broker) -> AsyncIterator[Broker]:
    """A second server; ``queue`` is the first."""
    async with make_broker(PostgresStore(url)) as broker:
        yield broker


async def enqueue(
    sql: asyncpg.Connection, *texts: str, partition: str = "alice", chosen: str | None = None
) -> None:
    for text in texts:
        await sql.fetch(TEXT, "orders", partition, text, chosen)


async def until_empty(sql: asyncpg.Connection) -> None:
    """Until nothing waits any more."""

    async def is_empty() -> bool:
        return not await sql.fetchval(WAITING)

    await until(is_empty)


async def messages(sql: asyncpg.Connection, partition: str = "alice") -> list[bytes]:
    """What was appended to a partition, in order."""
    found = await sql.fetch(
        "SELECT m.payload_bytes FROM queen.messages m"
        " JOIN queen.partitions p ON p.id = m.partition_id WHERE p.name = $1"
        " ORDER BY m.message_offset",
        partition,
    )
    return [row[0] for row in found]


async def test_what_was_enqueued_is_pushed_in_order(queue: Broker, sql: asyncpg.Connection) -> None:
    async with sql.transaction():
        await enqueue(sql, "1", "2", "3")
    await enqueue(sql, "4")

    await until_empty(sql)

    assert payloads(await pop(queue, batch=10)) == [b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("payload", [b"", b"\x00\xff", b'{ "b":1,  "a":2 }', b"x" * 100_000])
async def test_payloads_arrive_byte_for_byte(
    queue: Broker, sql: asyncpg.Connection, payload: bytes
) -> None:
    await sql.fetch(BYTES, "orders", "alice", payload)

    await until_empty(sql)

    assert payloads(await pop(queue)) == [payload]


async def test_text_is_kept_and_jsonb_is_what_postgresql_prints(
    queue: Broker, sql: asyncpg.Connection
) -> None:
    await sql.fetch("""SELECT queen.enqueue('orders', 'alice', '{"b":1,  "ä":2}')""")
    await sql.fetch("SELECT queen.enqueue('orders', NULL, jsonb_build_object('a', 1))")

    await until_empty(sql)

    assert await messages(sql) == ['{"b":1,  "ä":2}'.encode()]
    assert await messages(sql, "Default") == [b'{"a": 1}']


async def test_what_was_rolled_back_never_was(queue: Broker, sql: asyncpg.Connection) -> None:
    transaction = sql.transaction()
    await transaction.start()
    await enqueue(sql, "never")
    await transaction.rollback()

    await enqueue(sql, "1")
    await until_empty(sql)

    assert await messages(sql) == [b"1"]


async def test_an_open_transaction_holds_nobody_up_and_comes_when_it_is_committed(
    url: str, queue: Broker, sql: asyncpg.Connection
) -> None:
    slow = await asyncpg.connect(url)
    transaction = slow.transaction()
    await transaction.start()
    await enqueue(slow, "slow")
    await enqueue(sql, "fast")
    await until_empty(sql)
    before = await messages(sql)

    await transaction.commit()
    await until_empty(sql)

    assert before == [b"fast"]
    assert await messages(sql) == [b"fast", b"slow"]
    await slow.close()


async def test_the_same_transaction_id_is_one_message(
    queue: Broker, sql: asyncpg.Connection
) -> None:
    await enqueue(sql, "1", "2", chosen="o-1")
    await until_empty(sql)
    await enqueue(sql, "3", chosen="o-1")
    await enqueue(sql, "4", chosen="o-2")

    await until_empty(sql)

    assert await messages(sql) == [b"1", b"4"]


async def test_several_servers_append_each_row_once_and_in_order(
    url: str, queue: Broker, sql: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def always(*_: object) -> bool:
        return True

    # All of them at once, as if each took itself for the one whose duty it is.
    monkeypatch.setattr(LeaderTable, "acquire_leadership", always)
    numbers = [str(number) for number in range(200)]
    async with make_broker(PostgresStore(url)), make_broker(PostgresStore(url)):
        for number in numbers:
            await enqueue(sql, number, partition=f"p{int(number) % 3}")
        await until_empty(sql)

    for place in range(3):
        expected = [number.encode() for number in numbers[place::3]]
        assert await messages(sql, f"p{place}") == expected


async def test_of_two_changes_with_the_same_row_one_is_stale(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    await store.queues()
    await enqueue(sql, "1", "2")
    first, second = [row[0] for row in await sql.fetch("SELECT number FROM queen.outbox")]

    commit = await store.commit([Change(outbox=(first,)), Change(outbox=(first, second))])
    again = await store.commit([Change(outbox=(first,))])

    assert commit.outcomes[1] == again.outcomes[0] == Stale()
    assert [row[0] for row in await sql.fetch("SELECT number FROM queen.outbox")] == [second]


async def test_a_row_that_an_operator_holds_keeps_nobody_from_pushing(
    url: str, queue: Broker, sql: asyncpg.Connection
) -> None:
    await queue.maintenance.set_pushing(True)
    await enqueue(sql, "1", "2")
    operator = await asyncpg.connect(url)
    async with operator.transaction(), asyncio.timeout(PATIENCE):
        await operator.fetch("SELECT FROM queen.outbox ORDER BY number LIMIT 1 FOR UPDATE")
        await queue.maintenance.set_pushing(False)
        await sql.fetch(TEXT, "mails", "bob", "hello", None)
        delivered = await pop(queue, "mails", wait=PATIENCE)
        await queue.push("orders", drafts(1, "alice"))
        before = await messages(sql)

    await until_empty(sql)

    assert payloads(delivered) == [b"hello"]
    assert before == [b"0"]
    assert await messages(sql) == [b"0", b"1", b"2"]
    await operator.close()


async def test_rows_whose_commit_failed_come_later(queue: Broker, sql: asyncpg.Connection) -> None:
    await queue.push("orders", drafts(1, "alice"))
    await sql.execute(
        "CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE 'disk full'; END $$;"
        "CREATE TRIGGER fail BEFORE DELETE ON queen.outbox EXECUTE FUNCTION public.fail()"
    )
    try:
        await enqueue(sql, "1", "2")
        await until_held(queue)
        before = await messages(sql)
    finally:
        await sql.execute("DROP FUNCTION public.fail CASCADE")

    await until_empty(sql)

    assert before == [b"0"]
    assert await messages(sql) == [b"0", b"1", b"2"]


async def test_each_row_arrives_once_though_connections_die(
    queue: Broker, other: Broker, sql: asyncpg.Connection
) -> None:
    mine = [sql.get_server_pid(), databases().pid()]
    for number in range(100):
        await enqueue(sql, str(number))
        if number % 10 == 9:
            await turn()
            await sql.fetch(END_OTHERS, mine)

    await until_empty(sql)

    assert await messages(sql) == [b"%d" % number for number in range(100)]


async def until_held(queue: Broker, name: str = "orders") -> None:
    """Until a try to append to a queue has failed."""

    async def is_held() -> bool:
        return name in queue._parts.outbox._held

    await until(is_held)


async def test_what_is_refused_says_why_and_holds_nobody_up(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    async with make_broker(store, limits=Limits(payload_bytes=10)):
        await enqueue(sql, "1", "x" * 11)
        await sql.execute(
            "INSERT INTO queen.outbox (queue, partition, payload) VALUES ('orders', '', 'x')"
        )
        await enqueue(sql, "2")

        await until_empty(sql)

    large, unnamed = [row[0] for row in await sql.fetch(REFUSED)]
    assert await messages(sql) == [b"1", b"2"]
    assert large == "payload: is 11 bytes long, at most 10 are allowed"
    assert "must not be empty" in unnamed


async def test_a_row_for_a_queue_of_the_server_is_refused(
    queue: Broker, sql: asyncpg.Connection
) -> None:
    await sql.execute("SELECT queen.enqueue('__skep.aside', 'alice', 'x', NULL)")
    await enqueue(sql, "1")

    await until_empty(sql)

    (reason,) = [row[0] for row in await sql.fetch(REFUSED)]
    assert await messages(sql) == [b"1"]
    assert "reserved" in reason


@pytest.mark.parametrize(
    ("queue_name", "partition", "payload", "chosen"),
    [
        ("", "alice", "x", None),
        (None, "alice", "x", None),
        ("ä" * 128, "alice", "x", None),
        ("orders", "", "x", None),
        ("orders", "a\nb", "x", None),
        ("orders", "a\x9fb", "x", None),
        ("orders", "alice", None, None),
        ("orders", "alice", "x", ""),
        ("orders", "alice", "x", "i" * 256),
    ],
)
async def test_what_can_never_be_pushed_fails_in_the_callers_transaction(
    sql: asyncpg.Connection,
    queue_name: str | None,
    partition: str,
    payload: str | None,
    chosen: str | None,
) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError):
        await sql.fetch(TEXT, queue_name, partition, payload, chosen)


async def test_a_full_queue_takes_what_it_can_and_the_rest_in_time(
    queue: Broker, sql: asyncpg.Connection
) -> None:
    await queue.queues.configure("orders", max_size=3)
    async with sql.transaction():
        await enqueue(sql, *"01234567")
        await sql.fetch(TEXT, "mails", "bob", "hello", None)
    await until_held(queue)
    taken = []

    async def is_all_taken() -> bool:
        delivery = await queue.pop("orders", batch=10, auto_ack=True)
        taken.extend(payloads(delivery))
        return len(taken) == 8

    await until(is_all_taken)

    assert taken == [b"%d" % number for number in range(8)]
    assert await messages(sql, "bob") == [b"hello"]


async def test_an_encrypted_queue_keeps_it_encrypted(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    async with make_broker(store, keys=RING) as queue:
        await queue.queues.configure("orders", encryption_enabled=True)
        await enqueue(sql, "secret")
        await until_empty(sql)

        (stored,) = await messages(sql)
        assert b"secret" not in stored
        assert payloads(await pop(queue)) == [b"secret"]


async def test_consumers_at_every_server_are_woken(
    queue: Broker, other: Broker, sql: asyncpg.Connection
) -> None:
    await queue.push("orders", drafts(1, "alice"))
    waiting = []
    for number, server in enumerate((queue, other)):
        await pop(server, group=f"g{number}", auto_ack=True)
        waiting.append(await long_poll(server, group=f"g{number}"))

    await enqueue(sql, "1")

    assert [payloads(await finish(task)) for task in waiting] == [[b"1"], [b"1"]]


async def test_the_next_server_goes_on_when_the_one_on_duty_ends(
    url: str, store: PostgresStore, sql: asyncpg.Connection
) -> None:
    async with make_broker(PostgresStore(url)):
        await enqueue(sql, "1")
        await until_empty(sql)

    async with make_broker(store):
        await enqueue(sql, "2")
        await until_empty(sql)

    assert await messages(sql) == [b"1", b"2"]


async def test_a_server_takes_over_from_one_that_was_killed(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    await store.queues()
    await sql.execute("INSERT INTO queen.duty VALUES ('outbox', gen_random_uuid(), 'infinity')")
    async with make_broker(store) as queue:
        await enqueue(sql, "1")
        await until_asked(queue)
        before = await messages(sql)

        await sql.execute("UPDATE queen.duty SET expires_at = now()")
        await until_empty(sql)

    assert before == []
    assert await messages(sql) == [b"1"]


async def until_asked(queue: Broker) -> None:
    """Until a server has asked whether the outbox is its own duty."""

    async def has_asked() -> bool:
        return queue._parts.outbox._ask_at > 0

    await until(has_asked)


async def test_it_waits_while_pushing_is_in_maintenance(
    queue: Broker, sql: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_duty, asked = queue._parts.outbox._on_duty, list[bool]()

    async def listen() -> bool:
        asked.append(await on_duty())
        return asked[-1]

    async def has_asked_thrice() -> bool:
        return len(asked) >= 3

    monkeypatch.setattr(queue._parts.outbox, "_on_duty", listen)
    await queue.maintenance.set_pushing(True)
    await enqueue(sql, "1")
    asked.clear()
    await until(has_asked_thrice)
    waiting = await sql.fetchval(WAITING)

    await queue.maintenance.set_pushing(False)
    await until_empty(sql)

    assert waiting == 1
    assert await messages(sql) == [b"1"]


async def test_a_role_needs_nothing_but_the_right_to_call(
    queue: Broker, sql: asyncpg.Connection
) -> None:
    (grants,) = re.findall(r"```sh\npsql -c '(GRANT.*?)'", PAGE.read_text(), re.DOTALL)
    await sql.execute("CREATE ROLE shop")
    try:
        await sql.execute("GRANT USAGE ON SCHEMA queen TO shop; SET ROLE shop")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await enqueue(sql, "0")
        await sql.execute(f"RESET ROLE; {grants}; SET ROLE shop")
        await enqueue(sql, "1")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await sql.fetch("SELECT FROM queen.outbox")
    finally:
        await sql.execute("RESET ROLE; DROP OWNED BY shop; DROP ROLE shop")

    await until_empty(sql)
    assert await messages(sql) == [b"1"]


async def test_the_example_of_the_documentation_pushes(
    queue: Broker, sql: asyncpg.Connection
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (example,) = [block for block in blocks if "queen.enqueue" in block]
    await sql.execute("CREATE TABLE public.invoice (number integer, total integer)")
    names: dict[str, object] = {}
    try:
        exec(example, names)
        await names["charge"](sql, 17, 12)  # type: ignore[operator]
        stored = await sql.fetchval("SELECT total FROM public.invoice WHERE number = 17")
    finally:
        await sql.execute("DROP TABLE public.invoice")

    await until_empty(sql)

    assert stored == 12
    assert payloads(await pop(queue, "invoices")) == [b'{"number": 17, "total": 12}']
