"""``GET /api/v1/analytics/retention`` and ``queues/{queue}/removals``: messages removed from
queues, by rule."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from skep.model.address import address_of, partition_id, partition_of, queue_id
from skep.model.name import SECOND, Instant, from_datetime, to_datetime
from skep.model.queue import Queue, Removal
from skep.wire.body import Body
from skep.wire.pagination import TimeRange
from skep.wire.stats.counts import ManyLimit

RULES = {
    "retention": "retention_msgs",
    "completed": "completed_retention_msgs",
    "evicted": "eviction_msgs",
    "cleared": "cleared_msgs",
}
"""The counter of each kind of removal."""


class RetentionBucket(Body, frozen=True, kw_only=True):
    """Messages removed in the bucket from ``bucket`` on, by rule. ``clearedMsgs`` were removed by
    an operator."""

    bucket: datetime
    retention_msgs: int = 0
    completed_retention_msgs: int = 0
    eviction_msgs: int = 0
    cleared_msgs: int = 0
    total_msgs: int = 0
    event_count: int = 0


class RetentionTotals(Body, frozen=True, kw_only=True):
    retention_msgs: int = 0
    completed_retention_msgs: int = 0
    eviction_msgs: int = 0
    cleared_msgs: int = 0
    total_msgs: int = 0
    event_count: int = 0


class Retention(Body, frozen=True, kw_only=True):
    time_range: TimeRange
    bucket_minutes: int
    series: list[RetentionBucket]
    totals: RetentionTotals


class RemovalsQuery(Body, frozen=True, kw_only=True):
    limit: ManyLimit = 100


class WireRemoval(Body, frozen=True, kw_only=True):
    partition_id: UUID
    kind: str
    messages: int
    executed_at: datetime


class Removals(Body, frozen=True, kw_only=True):
    """Removals of the last 90 days, newest first."""

    queue_id: UUID
    removals: list[WireRemoval]


def from_removals(queue: Queue, removals: Iterable[Removal]) -> Removals:
    return Removals(
        queue_id=queue_id(queue.number),
        removals=[
            WireRemoval(
                partition_id=partition_id(removal.partition),
                kind=removal.kind,
                messages=removal.messages,
                executed_at=to_datetime(removal.executed_at),
            )
            for removal in removals
        ],
    )


def to_removals(found: Removals) -> list[Removal]:
    return [
        Removal(
            queue=address_of(found.queue_id)[0],
            partition=partition_of(removal.partition_id),
            kind=removal.kind,
            messages=removal.messages,
            executed_at=from_datetime("executed_at", removal.executed_at),
        )
        for removal in found.removals
    ]


def to_retention(
    removals: Iterable[Removal], minutes: int
) -> tuple[list[RetentionBucket], RetentionTotals]:
    """Removals in buckets of ``minutes``, and their totals."""
    width = minutes * 60 * SECOND
    buckets: dict[Instant, Counter[str]] = {}
    totals: Counter[str] = Counter()
    for removal in removals:
        bucket = buckets.setdefault(removal.executed_at // width * width, Counter())
        for counter in (bucket, totals):
            if removal.kind in RULES:
                counter[RULES[removal.kind]] += removal.messages
            counter["total_msgs"] += removal.messages
            counter["event_count"] += 1
    series = [
        RetentionBucket(bucket=to_datetime(start), **counts) for start, counts in buckets.items()
    ]
    return series, RetentionTotals(**totals)
