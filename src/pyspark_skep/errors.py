"""Errors that the data source raises."""


class InvalidOption(ValueError):
    """An option is unknown, has an invalid value, or contradicts another one."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"option {name!r} {reason}")


class InvalidColumns(ValueError):
    """The columns of a DataFrame, or of a schema, do not match those of a queue."""


class RequestRejected(RuntimeError):
    """The server rejected a request; a retry would be rejected too."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code

    @property
    def is_missing(self) -> bool:
        """Whether the queue or the messages that were requested do not exist any more."""
        return self.status == 404 or self.is_mismatch

    @property
    def is_mismatch(self) -> bool:
        """Whether a position is from another store, or from a deleted queue of the same name."""
        return self.code in ("PositionMismatch", "POSITION_MISMATCH")


class Interrupted(RuntimeError):
    """The server did not respond, or its response was cut off; a retry may succeed."""

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class DataLost(RuntimeError):
    """Messages between two positions were removed before they were read."""
