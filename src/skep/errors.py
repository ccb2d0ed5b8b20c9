"""Every error this project raises on purpose.

SkepError
├── NotFound                 what was named does not exist
│   ├── QueueNotFound
│   ├── PartitionNotFound
│   ├── GroupNotFound
│   ├── MessageNotFound
│   └── DeadLetterNotFound
├── Conflict                 the state of the broker forbids it now; nothing was written
│   ├── LeaseLost
│   ├── KeyReused
│   ├── QueryChanged
│   ├── PositionMismatch
│   ├── EncryptionUnavailable
│   ├── QuotaExceeded
│   └── QueueFull
├── Invalid                  it can never succeed as written; nothing was written
│   └── TooLarge
├── Denied                   who asks may not; nothing was written
│   ├── Unauthenticated
│   └── Forbidden
├── Unavailable              nothing was written: the caller may retry
│   ├── Overloaded
│   ├── RateLimited
│   ├── InMaintenance
│   ├── Closed
│   ├── StoreLocked
│   ├── StoreFull
│   ├── StoreStalled
│   └── StoreFailed
├── OutcomeUnknown           it may have been written: repeat only with the same ids
└── Corrupted                an invariant of the stored data is broken: do not retry
    └── DecryptionFailed

Catch a branch, not a leaf, unless you handle that leaf differently.
"""

import re
from typing import Self, TypeAlias

FieldPath: TypeAlias = tuple[str | int, ...]
"""Names and indexes on the way to a field of an argument."""


class SkepError(Exception):
    """Base class of every error raised on purpose."""


class NotFound(SkepError):
    """The thing named does not exist."""


class QueueNotFound(NotFound):
    def __init__(self, queue: str) -> None:
        super().__init__(f"queue {queue!r} does not exist")
        self.queue = queue


class PartitionNotFound(NotFound):
    def __init__(self, queue: str, partition: str) -> None:
        super().__init__(f"queue {queue!r} has no partition {partition!r}")
        self.queue, self.partition = queue, partition


class GroupNotFound(NotFound):
    def __init__(self, queue: str, group: str) -> None:
        super().__init__(f"there is no group {group!r} in queue {queue!r}")
        self.queue, self.group = queue, group


class MessageNotFound(NotFound):
    def __init__(self, message: str) -> None:
        super().__init__(f"message {message} does not exist, or is no longer kept")
        self.message = message


class DeadLetterNotFound(NotFound):
    def __init__(self, number: int) -> None:
        super().__init__(f"dead letter {number} does not exist")
        self.number = number


class Conflict(SkepError):
    """The state of the broker forbids the request now. Nothing was written."""


class PositionMismatch(Conflict):
    """A position in the journal of what is not there any more. Nothing was read."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}: start anew, with a new checkpoint and a new group")
        self.reason = reason


class LeaseLost(Conflict):
    """The lease expired, was released or was taken over; its messages may be with another."""

    def __init__(self, lease_id: str) -> None:
        super().__init__(f"lease {lease_id} is no longer held; its messages are delivered again")
        self.lease_id = lease_id


class KeyReused(Conflict):
    """The idempotency key belongs to a transaction with other operations."""

    def __init__(self, key: str) -> None:
        super().__init__(f"idempotency key {key!r} was used for a different transaction")
        self.key = key


class QueryChanged(Conflict):
    """The computation under this name is another one than the state was made by."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"config_hash mismatch: query {name!r} is registered with another computation; "
            "register it under a new name, or with reset to lose its state"
        )
        self.name = name


class EncryptionUnavailable(Conflict):
    """The queue is encrypted and there is no key: nothing is stored in the clear instead.

    It does not help to try again before the server has the key.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"encryption: {reason}")
        self.reason = reason


class QueueFull(Conflict):
    """The push would exceed the queue's ``max_size``; none of it was written."""

    code = "QUEUE_FULL"

    def __init__(self, queue: str, *, depth: int, capacity: int) -> None:
        super().__init__(
            f"queue {queue!r} is full: {depth} of {capacity} messages wait; "
            "consume, or raise max_size"
        )
        self.queue, self.depth, self.capacity = queue, depth, capacity

    @property
    def remaining(self) -> int:
        return max(0, self.capacity - self.depth)


class QuotaExceeded(Conflict):
    """The caller may not create more of a kind; nothing was written."""

    def __init__(self, quota: str, limit: int) -> None:
        super().__init__(
            f"quota exceeded: at most {limit} {quota.replace('_', ' ')} in the queues you may use"
        )
        self.quota, self.limit = quota, limit


class Invalid(SkepError):
    """The request can never succeed as written: ``field`` says where, the text says why."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field, self.reason = field, reason

    @property
    def path(self) -> FieldPath:
        """``field`` in parts: ``drafts[0].partition`` is ``("drafts", 0, "partition")``."""
        parts = _PART.finditer(self.field)
        return tuple(int(part[1]) if part[1] else part[0] for part in parts)

    def at(self, path: FieldPath) -> Self:
        """The same error at another path."""
        return type(self)(_to_field(path), self.reason)

    def within(self, *parents: str | int) -> Self:
        """The same error in a part of a larger argument."""
        return type(self)(f"{_to_field(parents)}.{self.field}", self.reason)


_PART = re.compile(r"\[(\d+)\]|[^.\[\]]+")


def _to_field(path: FieldPath) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).removeprefix(".")


class TooLarge(Invalid):
    """More was sent at once than the server takes."""


class Denied(SkepError):
    """Who asks may not have this. Nothing was written."""


class Unauthenticated(Denied):
    """There is no valid token or key with the request."""


class Forbidden(Denied):
    """The token or key is valid, and does not allow this."""


class Unavailable(SkepError):
    """The broker or its store cannot serve now. Nothing was written."""


class Overloaded(Unavailable):
    """More work is waiting for the store than the broker may hold in memory."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"too much work is waiting for the store; retry in {retry_after} s")
        self.retry_after = retry_after


class RateLimited(Unavailable):
    """The caller sends more requests per second than it may."""

    quota = "requests"

    def __init__(self, limit: int, retry_after: float) -> None:
        super().__init__(f"quota exceeded: at most {limit} requests per second")
        self.limit, self.retry_after = limit, retry_after


class InMaintenance(Unavailable):
    """Pushes are buffered at present, and this one cannot be."""

    def __init__(self) -> None:
        super().__init__("pushing is in maintenance mode; try again later")


class Closed(Unavailable):
    def __init__(self) -> None:
        super().__init__("the broker is closed")


class StoreLocked(Unavailable):
    def __init__(self, path: str, holder: str) -> None:
        super().__init__(f"{path} is in use by {holder}; one process owns a store at a time")
        self.path, self.holder = path, holder


class StoreFull(Unavailable):
    """The disk is full. The store accepts writes again once there is space."""

    def __init__(self) -> None:
        super().__init__("the disk is full; free space and writing resumes")


class StoreStalled(Unavailable):
    """RocksDB stopped writes until its flushes and compactions catch up."""

    def __init__(self) -> None:
        super().__init__("RocksDB stopped writes until flushes and compactions catch up; retry")


class StoreFailed(Unavailable):
    """A write or a sync failed earlier, so the store takes no more until it is reopened."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the store stopped after a failed write ({reason}); reopen it")
        self.reason = reason


class OutcomeUnknown(SkepError):
    """The answer was lost, perhaps after the commit.

    Safe to repeat: a push with the same transaction ids, a transaction with the same
    idempotency key; an ack, which at worst answers ``LeaseLost`` because it was done; a replay
    of the dead letters that are left.
    """


class Corrupted(SkepError):
    """An invariant of the stored data is broken. Retrying will not help."""


class DecryptionFailed(Corrupted):
    def __init__(self, reason: str) -> None:
        super().__init__(f"a payload cannot be decrypted: {reason}")
        self.reason = reason
