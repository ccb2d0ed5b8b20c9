"""Queues and groups in numbers."""

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from skep.model.name import Offset
from skep.model.queue import Queue

MessageStatus: TypeAlias = Literal["pending", "processing", "completed", "dead_letter"]


class PartitionStats(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    number: int
    start: Offset
    end: Offset
    newest_at: datetime | None


class QueueStats(msgspec.Struct, frozen=True, kw_only=True):
    """A queue in numbers."""

    name: str
    namespace: str | None
    task: str | None
    partitions: int
    messages: int
    """Kept in the log, read or not."""
    pushed: int
    """Ever pushed."""
    depth: int
    """What the group that is furthest behind still has to read."""
    groups: int
    dead_letters: int


class PartitionLag(msgspec.Struct, frozen=True, kw_only=True):
    """How far a group is in one partition."""

    partition: str
    number: int
    cursor: Offset
    end: Offset
    backlog: int
    leased: bool
    worker_id: str | None
    """Stands for the lease: the same for all that it holds, and useless to settle it."""
    lease_expires_at: datetime | None
    attempt: int
    oldest_at: datetime | None
    """Not later than when the oldest message that waits was pushed; None if none waits."""
    last_consumed_at: datetime | None
    messages_consumed: int
    batches_consumed: int


class LaneLag(msgspec.Struct, frozen=True, kw_only=True):
    """How far a reader group is in one lane of a queue's journal."""

    lane: int
    position: int
    head: int
    backlog: int
    oldest_at: datetime | None
    """When the oldest message that the group has not passed was pushed; None without backlog."""


class GroupLag(msgspec.Struct, frozen=True, kw_only=True):
    """How far a group is in a queue."""

    queue: str
    group: str
    subscription_mode: str
    subscription_from: datetime | None
    subscribed_at: datetime
    partitions: int
    """In which it has a state of its own."""
    backlog: int
    partitions_with_backlog: int
    leased_partitions: int
    members: int
    """Consumers that hold a lease now."""
    oldest_at: datetime | None
    """Not later than when the oldest message that waits was pushed; None if none waits."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Messages by what became of them, seen by all groups of a queue together.

    A message is completed when every group is done with it, and processing while any of them
    holds it. ``failed`` are those of the pending that wait for another try. ``dead_letters`` are
    counted beside: there is one for each group that gave a message up.
    """

    total: int = 0
    pending: int = 0
    processing: int = 0
    failed: int = 0
    dead_letters: int = 0

    @property
    def completed(self) -> int:
        return self.total - self.pending - self.processing

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            total=self.total + other.total,
            pending=self.pending + other.pending,
            processing=self.processing + other.processing,
            failed=self.failed + other.failed,
            dead_letters=self.dead_letters + other.dead_letters,
        )


class PartitionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A partition and what became of its messages. The times are those of what it keeps."""

    queue: str
    name: str
    number: int
    start: Offset
    end: Offset
    counts: Counts
    messages_consumed: int
    batches_consumed: int
    created_at: datetime
    first_at: datetime | None
    newest_at: datetime | None


class QueueSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A queue and what became of its messages."""

    queue: Queue
    partitions: int
    groups: int
    counts: Counts
    messages_consumed: int
    batches_consumed: int


class LeaseCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Leases that live: how many, over how many partitions, and of their messages how many are
    held and how many were acknowledged."""

    active: int = 0
    partitions: int = 0
    held: int = 0
    acked: int = 0


class ErrorCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Why messages were given up, the most frequent reason first, and in how many partitions."""

    reasons: list[tuple[str, int]]
    partitions: int
