"""Rows whose queue does not exist: removed only if the queue was deleted, never after a restore."""

import logging

import asyncpg
import pytest

from skep.errors import Corrupted
from skep.store.postgres import orphan
from skep.store.postgres.store import PostgresStore
from tests.support.broker_builders import drafts, make_broker, payloads, pop

ROWS = """
SELECT (SELECT count(*) FROM queen.segment), (SELECT count(*) FROM queen.partition),
       (SELECT count(*) FROM queen.consumer), (SELECT count(*) FROM queen.subscription)
"""


async def fill(url: str, *names: str, messages: int = 1) -> None:
    store = PostgresStore(url)
    async with make_broker(store) as queue:
        for name in names:
            for n in range(messages):
                await queue.push(name, drafts(1, first=n))
            await pop(queue, name)


async def lose(sql: asyncpg.Connection, *names: str) -> None:
    """Leave the database as a restore does that has lost rows of ``queue``."""
    await sql.execute("ALTER TABLE queen.queue DISABLE TRIGGER USER")
    await sql.execute("DELETE FROM queen.queue WHERE name = ANY ($1)", list(names))
    await sql.execute("ALTER TABLE queen.queue ENABLE TRIGGER USER")


async def start(url: str) -> None:
    store = PostgresStore(url)
    try:
        await store.queues()
    finally:
        await store.close()


async def test_a_server_does_not_start_on_a_partial_restore_and_deletes_nothing(
    url: str, sql: asyncpg.Connection
) -> None:
    await fill(url, "lost", "kept")
    before = await sql.fetchrow(ROWS)
    number = await sql.fetchval("SELECT number FROM queen.queue WHERE name = 'lost'")
    await lose(sql, "lost")

    with pytest.raises(Corrupted) as refused:
        await start(url)

    assert "1 segments with 1 messages" in str(refused.value)
    assert f"1 queues that do not exist (numbers {number})" in str(refused.value)
    assert "skep orphan discard" in str(refused.value)
    assert await sql.fetchrow(ROWS) == before


async def test_a_server_starts_with_a_small_share_of_them_and_leaves_them_alone(
    url: str, sql: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(url, "lost")
    await fill(url, "kept", messages=99)
    before = await sql.fetchrow(ROWS)
    await lose(sql, "lost")

    with caplog.at_level(logging.WARNING, "skep.store"):
        await start(url)

    assert "1 segments with 1 messages" in caplog.text
    assert await sql.fetchrow(ROWS) == before


async def test_many_of_them_are_too_many_whatever_their_share(
    url: str, sql: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(url, "lost", messages=3)
    await fill(url, "kept", messages=400)
    await lose(sql, "lost")
    await start(url)
    monkeypatch.setattr(orphan, "MOST", 3)

    with pytest.raises(Corrupted, match="3 or more segments"):
        await start(url)


async def test_a_restore_without_the_subscriptions_loses_no_cursor(
    url: str, sql: asyncpg.Connection
) -> None:
    await fill(url, "kept")
    await sql.execute("DELETE FROM queen.subscription")

    await start(url)

    assert await sql.fetchval("SELECT count(*) FROM queen.consumer") == 1


async def test_what_is_restored_later_is_served_again(url: str, sql: asyncpg.Connection) -> None:
    await fill(url, "lost")
    await sql.execute("CREATE TEMPORARY TABLE saved AS SELECT * FROM queen.queue")
    await lose(sql, "lost")
    with pytest.raises(Corrupted):
        await start(url)
    await sql.execute("INSERT INTO queen.queue SELECT * FROM saved")

    async with make_broker(PostgresStore(url)) as queue:
        await queue.push("lost", drafts(1, first=7))
        found = await pop(queue, "lost", group="other", batch=9)

    assert payloads(found) == [b"0", b"7"]


async def test_a_queue_that_sql_deleted_does_not_keep_a_server_from_starting(
    url: str, sql: asyncpg.Connection
) -> None:
    await fill(url, "gone", "kept")
    await sql.execute("DELETE FROM queen.queue WHERE name = 'gone'")

    async with make_broker(PostgresStore(url)) as queue:
        assert [each.name for each in await queue.queues.list()] == ["kept"]
