"""What all statistics of queues and partitions share: identity and counts."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec

from skep.model.address import partition_id, queue_id
from skep.model.name import to_datetime
from skep.model.queue import Queue
from skep.model.stats import Counts, PartitionSummary
from skep.wire.body import Body
from skep.wire.pagination import Skip

ManyLimit = Annotated[int, msgspec.Meta(ge=1, le=10_000)]


class WireCounts(Body, frozen=True, kw_only=True):
    """Messages by status, over all groups: ``completed`` is completed by every group. ``failed``
    are pending messages that were tried before."""

    total: int = 0
    pending: int = 0
    processing: int = 0
    completed: int = 0
    failed: int = 0
    dead_letter: int = 0


class PartitionsPage(Body, frozen=True, kw_only=True):
    """A page of the partitions of a queue."""

    limit: ManyLimit = 1000
    offset: Skip = 0


class QueueHead(Body, frozen=True, kw_only=True):
    """Identifies a queue."""

    id: UUID
    name: str
    namespace: str | None
    task: str | None
    priority: int
    created_at: datetime


class PartitionHead(Body, frozen=True, kw_only=True):
    """Identifies a partition."""

    id: UUID
    name: str
    created_at: datetime


def head_of(queue: Queue) -> dict[str, Any]:
    """The fields of a ``QueueHead``."""
    return {
        "id": queue_id(queue.number),
        "name": queue.name,
        "namespace": queue.namespace,
        "task": queue.task,
        "priority": queue.options.priority,
        "created_at": to_datetime(queue.created_at),
    }


def partition_head_of(partition: PartitionSummary) -> dict[str, Any]:
    """The fields of a ``PartitionHead``."""
    return {
        "id": partition_id(partition.number),
        "name": partition.name,
        "created_at": partition.created_at,
    }


def to_counts(counts: Counts) -> WireCounts:
    return WireCounts(
        total=counts.total,
        pending=counts.pending,
        processing=counts.processing,
        completed=counts.completed,
        failed=counts.failed,
        dead_letter=counts.dead_letters,
    )


def from_counts(counts: WireCounts) -> Counts:
    return Counts(
        total=counts.total,
        pending=counts.pending,
        processing=counts.processing,
        failed=counts.failed,
        dead_letters=counts.dead_letter,
    )
