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
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)
"""The connection is gone, or no longer leads to a server that can write.

``InternalClientError`` is what the driver says of a connection on which the server announced its
end while nobody asked it anything.
"""

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


class BrokenConnection(Exception):
    """The connection broke while nobody used it. Only this package sees it."""


def was_not_sent(error: Exception) -> bool:
    """Whether the driver refused to use a connection, so that the server was sent nothing."""
    is_driver = isinstance(error, asyncpg.InternalClientError)
    return is_driver and str(error).startswith("cannot switch to state")


def message_of(error: Exception) -> str:
    """What an error says; some, as a deadline that has passed, say nothing."""
    return str(error) or type(error).__name__


def unavailable_from(error: Exception) -> SkepError:
    """For an error before COMMIT was sent, or of a read."""
    if isinstance(error, _DAMAGE):
        return Corrupted(f"the schema queen is damaged: {error}; restore a backup")
    return Unavailable(f"PostgreSQL cannot serve: {message_of(error)}")


def outcome_unknown_from(error: Exception) -> SkepError:
    """For an error in answer to COMMIT, or instead of one."""
    return OutcomeUnknown(f"PostgreSQL did not say whether it has committed: {error!r}")
