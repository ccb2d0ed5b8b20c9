"""What the driver raises, as what we raise: above all, whether something may have been written."""

import asyncpg

from skep.errors import Corrupted, OutcomeUnknown, SkepError, Unavailable

LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.InterfaceError,
    OSError,
    TimeoutError,
)
"""The connection is gone, or no longer leads to a server that can write."""

RACES = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.UniqueViolationError,
)
"""Somebody else was faster: nothing was written, and another try will see what he did."""

_DAMAGE = (
    asyncpg.DataCorruptedError,
    asyncpg.IndexCorruptedError,
    asyncpg.UndefinedTableError,
    asyncpg.UndefinedColumnError,
    asyncpg.UndefinedFunctionError,
    asyncpg.InvalidSchemaNameError,
)

DRIVER = (asyncpg.PostgresError, *LOST)
"""All that the driver raises."""


class Raced(Exception):
    """What was judged is no longer so. Only this package sees it: the work is done again."""


class Stale(Exception):
    """The connection broke while nobody used it. Only this package sees it."""


def not_written(error: Exception) -> SkepError:
    """For an error before COMMIT was sent, or of a read."""
    if isinstance(error, _DAMAGE):
        return Corrupted(f"the schema queen is damaged: {error}; restore a backup")
    return Unavailable(f"PostgreSQL cannot serve: {error or type(error).__name__}")


def perhaps_written(error: Exception) -> SkepError:
    """For an error in answer to COMMIT, or instead of one."""
    return OutcomeUnknown(f"PostgreSQL did not say whether it has committed: {error!r}")
