"""How long messages took, as counts that can be added.

Latencies fall into buckets that grow by a constant factor, as in a DDSketch: what a bucket stands
for is off by ``ERROR`` of any latency in it at most, and so is every quantile. The sketch of two
sets of messages is the sum of their sketches.
"""

from collections.abc import Mapping
from math import ceil, log
from typing import TypeAlias

import msgspec

from skep.model.name import SECOND, Instant

ERROR = 0.02
_FACTOR = (1 + ERROR) / (1 - ERROR)
_LOG_FACTOR = log(_FACTOR)

Sketch: TypeAlias = dict[int, int]
"""Messages by bucket. Bucket n has what took up to the n-th power of the factor, in microseconds,
and more than what bucket n - 1 has."""


class GroupLatency(msgspec.Struct, frozen=True):
    """How long took what a group acknowledged in a queue, in the minute from ``begins_at`` on."""

    queue: str
    group: str
    begins_at: Instant
    sketch: Sketch


def bucket_of(latency: int) -> int:
    """The bucket of a latency in microseconds; what took less than one counts as one."""
    return ceil(log(latency) / _LOG_FACTOR) if latency > 1 else 0


def floor_of(bucket: int) -> float:
    """What took longer than so many microseconds is in this bucket or a later one."""
    return _FACTOR ** (bucket - 1)


def seconds_of(bucket: int) -> float:
    """What a bucket stands for."""
    return 2 * _FACTOR**bucket / (_FACTOR + 1) / SECOND


def add(whole: Sketch, part: Mapping[int, int]) -> None:
    for bucket, messages in part.items():
        whole[bucket] = whole.get(bucket, 0) + messages
