"""Maps driver exceptions to ``skep.errors``, by whether anything may have been written."""

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
"""The connection is broken, or its server cannot write any more.

The driver raises ``InternalClientError`` for an idle connection that the server has closed.
"""

RACES = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.UniqueViolationError,
)
"""Another transaction was faster: nothing was written, and a retry sees its result."""

_DAMAGE = (
    asyncpg.DataCorruptedError,
    asyncpg.IndexCorruptedError,
    asyncpg.UndefinedTableError,
    asyncpg.UndefinedColumnError,
    asyncpg.UndefinedFunctionError,
    asyncpg.InvalidSchemaNameError,
)

DRIVER = (asyncpg.PostgresError, *LOST)
"""Everything that the driver raises."""


class Raced(Exception):
    """A row changed since it was read. Internal to this package: the work is retried."""


class BrokenConnection(Exception):
    """The connection broke while it was idle. Internal to this package."""


def was_not_sent(error: Exception) -> bool:
    """Whether the driver refused to use the connection, so that nothing was sent."""
    is_driver = isinstance(error, asyncpg.InternalClientError)
    return is_driver and str(error).startswith("cannot switch to state")


def message_of(error: Exception) -> str:
    """The message of an error, or its type if it has none, as a timeout."""
    return str(error) or type(error).__name__


def unavailable_from(error: Exception) -> SkepError:
    """The error to raise if nothing was written: for reads, and before COMMIT was sent."""
    if isinstance(error, _DAMAGE):
        return Corrupted(f"the schema queen is damaged: {error}; restore a backup")
    return Unavailable(f"PostgreSQL cannot serve: {message_of(error)}")


def outcome_unknown_from(error: Exception) -> SkepError:
    """The error to raise if COMMIT was sent and its result is unknown."""
    return OutcomeUnknown(f"PostgreSQL did not say whether it has committed: {error!r}")
