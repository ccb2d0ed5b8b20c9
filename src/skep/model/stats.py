"""Queues and groups in numbers."""

from datetime import datetime

import msgspec

from skep.model.names import Offset


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
    cursor: Offset
    end: Offset
    backlog: int
    leased: bool
    attempt: int
    oldest_at: datetime | None
    """Not later than when the oldest message that waits was pushed; None if none waits."""
    last_consumed_at: datetime | None
    messages_consumed: int


class GroupLag(msgspec.Struct, frozen=True, kw_only=True):
    """How far a group is in a queue."""

    queue: str
    group: str
    subscription_mode: str
    backlog: int
    partitions_with_backlog: int
    leased_partitions: int
    oldest_at: datetime | None
