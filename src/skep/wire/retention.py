"""``GET /api/v1/analytics/retention``: what left the queues, and by which rule."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from skep.model.names import SECOND, Instant, to_datetime
from skep.model.queue import Removal
from skep.wire.body import Body
from skep.wire.listing import TimeRange

RULES = {
    "retention": "retention_msgs",
    "completed": "completed_retention_msgs",
    "evicted": "eviction_msgs",
    "cleared": "cleared_msgs",
}
"""Which counter a kind of removal goes into."""


class RetentionBucket(Body, frozen=True, kw_only=True):
    """What left the queues from ``bucket`` on, by rule. ``clearedMsgs`` were removed by hand."""

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


def to_retention(
    removals: Iterable[Removal], minutes: int
) -> tuple[list[RetentionBucket], RetentionTotals]:
    """Removals gathered in buckets of so many minutes, and all of them together."""
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
