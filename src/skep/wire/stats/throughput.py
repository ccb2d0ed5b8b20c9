"""Throughput over a time range, and the servers."""

from datetime import datetime

from skep.model.name import MILLISECOND, to_datetime
from skep.model.tally import Bucket, Tally
from skep.wire.body import Body


class Point(Body, frozen=True, kw_only=True):
    """Operations in the bucket from ``timestamp`` on. ``processed`` counts acknowledged messages; a
    lag is the age of the oldest message of a delivery."""

    timestamp: datetime
    ingested: int
    processed: int
    ingested_per_second: float
    processed_per_second: float
    pop_messages: int
    failed: int
    dead_letters: int
    push_requests: int
    pop_requests: int
    ack_requests: int
    avg_lag_ms: float
    max_lag_ms: float


class Efficiency(Body, frozen=True, kw_only=True):
    """Messages per operation."""

    push: float
    pop: float
    ack: float


class WorkerStats(Body, frozen=True, kw_only=True):
    """A server process."""

    worker_id: str
    hostname: str
    pid: int
    version: str
    uptime_seconds: float


def to_point(bucket: Bucket, minutes: int) -> Point:
    tally, seconds = bucket.tally, minutes * 60
    return Point(
        timestamp=to_datetime(bucket.start),
        ingested=tally.pushed,
        processed=tally.acked,
        ingested_per_second=tally.pushed / seconds,
        processed_per_second=tally.acked / seconds,
        pop_messages=tally.popped,
        failed=tally.failed,
        dead_letters=tally.dead_letters,
        push_requests=tally.pushes,
        pop_requests=tally.pops,
        ack_requests=tally.acks,
        avg_lag_ms=tally.lag_mean / MILLISECOND,
        max_lag_ms=tally.lag_max / MILLISECOND,
    )


def to_efficiency(tally: Tally) -> Efficiency:
    return Efficiency(
        push=_per(tally.pushed, tally.pushes),
        pop=_per(tally.popped, tally.pops),
        ack=_per(tally.acked, tally.acks),
    )


def _per(messages: int, operations: int) -> float:
    return messages / operations if operations else 0.0
