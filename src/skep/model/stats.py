"""Statistics of queues and groups."""

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
    """Statistics of a queue."""

    name: str
    namespace: str | None
    task: str | None
    partitions: int
    messages: int
    """Messages in the log, read or not."""
    pushed: int
    """Messages ever pushed."""
    depth: int
    """Backlog of the group that is furthest behind."""
    groups: int
    dead_letters: int


class PartitionLag(msgspec.Struct, frozen=True, kw_only=True):
    """The position of a group in one partition."""

    partition: str
    number: int
    cursor: Offset
    end: Offset
    backlog: int
    leased: bool
    worker_id: str | None
    """Identifies the lease without allowing to settle it; the same for all partitions of the
    lease."""
    lease_expires_at: datetime | None
    attempt: int
    oldest_at: datetime | None
    """A lower bound of when the oldest waiting message was pushed; None without backlog."""
    last_consumed_at: datetime | None
    messages_consumed: int
    batches_consumed: int


class LaneLag(msgspec.Struct, frozen=True, kw_only=True):
    """The position of a reader group in one lane of a queue's journal."""

    lane: int
    position: int
    head: int
    backlog: int
    oldest_at: datetime | None
    """When the oldest message that the group has not passed was pushed; None without backlog."""


class GroupLag(msgspec.Struct, frozen=True, kw_only=True):
    """The position of a group in a queue."""

    queue: str
    group: str
    subscription_mode: str
    subscription_from: datetime | None
    subscribed_at: datetime
    partitions: int
    """Partitions in which the group has a state of its own."""
    backlog: int
    partitions_with_backlog: int
    leased_partitions: int
    members: int
    """Consumers that hold a lease."""
    oldest_at: datetime | None
    """A lower bound of when the oldest waiting message was pushed; None without backlog."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Messages by status, over all groups of a queue.

    A message is completed when every group has completed it, and processing while any group has it
    in flight. ``failed`` are pending messages that wait for a retry. ``dead_letters`` are counted
    separately: one for each group that dead-lettered a message.
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
    """A partition with its message counts by status. The times are those of the messages in the
    log."""

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
    """A queue with its message counts by status."""

    queue: Queue
    partitions: int
    groups: int
    counts: Counts
    messages_consumed: int
    batches_consumed: int


class LeaseCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Live leases: their number, their partitions, and their messages in flight and
    acknowledged."""

    active: int = 0
    partitions: int = 0
    held: int = 0
    acked: int = 0


class ErrorCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Reasons of dead letters, the most frequent first, and the number of partitions affected."""

    reasons: list[tuple[str, int]]
    partitions: int
