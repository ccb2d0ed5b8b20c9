"""Whose time it is: the database's, between two answers as well as can be reckoned."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from skep import Broker
from skep.model.name import SECOND
from skep.store.postgres.clock import DatabaseClock
from skep.store.postgres.store import PostgresStore
from tests.support.broker_builders import drafts, payloads, pop
from tests.support.postgres_databases import databases
from tests.support.skewed_database_clock import SKEW, set_clock
from tests.support.store_builders import appended, make_partition, make_queue, push, read_all

HOUR = 3600 * SECOND
SWEEP_SECONDS = 0.02
NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"


def test_a_database_that_is_ahead_is_followed() -> None:
    clock = DatabaseClock()
    asked_at = clock.steady()

    clock.learn(asked_at + HOUR, asked_at)

    assert clock.steady() + HOUR - SECOND < clock.now() <= clock.steady() + HOUR


def test_an_answer_that_agrees_changes_nothing() -> None:
    clock = DatabaseClock()
    asked_at = clock.steady()

    clock.learn(asked_at, asked_at - HOUR)

    assert abs(clock.now() - clock.steady()) < SECOND


def test_a_database_that_was_set_back_is_followed() -> None:
    clock = DatabaseClock()
    asked_at = clock.steady()
    clock.learn(asked_at + HOUR, asked_at)

    clock.learn(asked_at, asked_at)

    assert clock.now() <= clock.steady()


async def test_what_is_pushed_has_the_time_of_the_database(
    store: PostgresStore, sql: asyncpg.Connection
) -> None:
    alice = await make_partition(store, await make_queue(store))
    before = await sql.fetchval(NOW)

    await appended(store, push(alice, b"a"))

    (segment,) = await read_all(store, alice)
    assert before <= segment.created_at <= await sql.fetchval(NOW)
    assert abs(store.clock.now() - await sql.fetchval(NOW)) < SECOND


@pytest.fixture
def skewed_url() -> str:
    url = databases().create()
    databases().execute(url, SKEW)
    return url


@pytest.fixture
async def setter(skewed_url: str) -> AsyncIterator[asyncpg.Connection]:
    """Whoever sets the clock of the database."""
    connection = await asyncpg.connect(skewed_url)
    yield connection
    await connection.close()


@pytest.fixture
async def sweeping(skewed_url: str) -> AsyncIterator[Broker]:
    async with Broker(PostgresStore(skewed_url), sweep_interval=SWEEP_SECONDS) as broker:
        yield broker


async def test_a_lease_outlives_a_clock_that_is_set_back_by_no_more_than_its_own_time(
    sweeping: Broker, setter: asyncpg.Connection
) -> None:
    await sweeping.push("orders", drafts(1))
    await pop(sweeping, lease_seconds=1)
    await set_clock(setter, hours_ahead=-1)
    await sweeping.push("orders", drafts(1, "other"))

    async with asyncio.timeout(20):
        again = await pop(sweeping, partition="Default", wait=15)

    assert payloads(again) == [b"0"]


async def test_a_clock_that_is_set_forward_removes_nothing(
    sweeping: Broker, setter: asyncpg.Connection
) -> None:
    await sweeping.queues.configure("orders", retention_seconds=60, retention_enabled=True)
    await sweeping.push("orders", drafts(3))
    await set_clock(setter, hours_ahead=1)
    await sweeping.push("other", drafts(1))

    await asyncio.sleep(10 * SWEEP_SECONDS)

    assert payloads(await pop(sweeping, batch=3)) == [b"0", b"1", b"2"]


async def test_a_lease_ends_at_every_server_though_the_clock_was_an_hour_ahead_meanwhile(
    skewed_url: str, setter: asyncpg.Connection
) -> None:
    async with (
        Broker(PostgresStore(skewed_url), sweep_interval=None) as one,
        Broker(PostgresStore(skewed_url), sweep_interval=None) as other,
    ):
        await one.push("orders", drafts(1))
        start = one._store.clock.now()
        await set_clock(setter, hours_ahead=1)
        async with asyncio.timeout(10):
            while one._store.clock.now() < start + HOUR:  # noqa: ASYNC110 - nobody announces it
                await asyncio.sleep(0.01)
        await pop(one, lease_seconds=1)
        await set_clock(setter, hours_ahead=0)

        async with asyncio.timeout(20):
            again = await pop(other, wait=15)

    assert payloads(again) == [b"0"]
