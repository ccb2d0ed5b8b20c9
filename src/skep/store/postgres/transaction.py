"""Runs one transaction; what a failure means depends on whether COMMIT was sent."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg

from skep.store.postgres.driver_errors import (
    DRIVER,
    LOST,
    RACES,
    BrokenConnection,
    Raced,
    outcome_unknown_from,
    unavailable_from,
)
from skep.store.postgres.sql import QUERIES

T = TypeVar("T")
Work = Callable[[asyncpg.Connection], Awaitable[T]]

_ROLLBACK_SECONDS = 5


async def transact(connection: asyncpg.Connection, work: Work[T], *, pooled: bool) -> T:
    """Run ``work`` in a transaction. Races are raised unchanged, for a retry."""
    await _begin(connection, pooled=pooled)
    try:
        result = await work(connection)
    except (*RACES, Raced):
        await _roll_back(connection)
        raise
    except LOST as error:
        connection.terminate()
        raise unavailable_from(error) from error
    except asyncpg.PostgresError as error:
        await _roll_back(connection)
        raise unavailable_from(error) from error
    except BaseException:
        # A cancelled request leaves a connection in the middle of a result, which is unusable.
        connection.terminate()
        raise
    await _commit(connection)
    return result


async def _begin(connection: asyncpg.Connection, *, pooled: bool) -> None:
    try:
        await connection.execute(QUERIES["begin"])
        if pooled:
            await connection.fetch(QUERIES["settings"], True)
    except TimeoutError as error:
        # Another connection would time out, too, and the caller has waited long enough.
        connection.terminate()
        raise unavailable_from(error) from error
    except LOST as error:
        connection.terminate()
        raise BrokenConnection from error
    except asyncpg.PostgresError as error:
        # A standby rejects transactions that write; the next connection may reach the primary.
        connection.terminate()
        raise unavailable_from(error) from error
    except BaseException:
        connection.terminate()
        raise


async def _commit(connection: asyncpg.Connection) -> None:
    try:
        await connection.execute("COMMIT")
    except (asyncpg.SerializationError, asyncpg.DeadlockDetectedError):
        raise
    except DRIVER as error:
        connection.terminate()
        raise outcome_unknown_from(error) from error
    except BaseException:
        connection.terminate()
        raise


async def _roll_back(connection: asyncpg.Connection) -> None:
    try:
        await connection.execute("ROLLBACK", timeout=_ROLLBACK_SECONDS)
    except DRIVER:
        connection.terminate()
