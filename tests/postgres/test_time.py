"""Whose time it is: the database's, between two answers as well as can be reckoned."""

import asyncpg

from skep.model.names import SECOND
from skep.store.postgres.clock import DatabaseClock
from skep.store.postgres.store import PostgresStore
from tests.store.build import appended, make_partition, make_queue, push, read_all

HOUR = 3600 * SECOND
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
