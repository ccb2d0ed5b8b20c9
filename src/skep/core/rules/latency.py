"""How old the messages of a run are, and how long those took that an ack completed. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from skep.model import ranges
from skep.model.consumer import ConsumerState
from skep.model.latency import bucket_of, floor_of
from skep.model.name import Instant, Offset
from skep.model.ranges import Ranges
from skep.model.segment import Segment


class Ages(NamedTuple):
    """Messages from the n-th offset on were pushed at the n-th instant."""

    offsets: Sequence[Offset] = ()
    instants: Sequence[Instant] = ()


UNKNOWN = Ages()


def ages_of(segments: Sequence[Segment]) -> Ages:
    return Ages(
        [segment.start for segment in segments], [segment.created_at for segment in segments]
    )


def completed(
    ages: Ages, before: ConsumerState, after: ConsumerState, dead: Ranges, now: Instant
) -> Iterator[tuple[int, int]]:
    """Buckets of latencies, and how many messages of each an ack at ``now`` completed.

    What it gave up is ``dead``, and done, but not completed.

    It goes from bucket to bucket, not from segment to segment: who pushes one by one makes many
    segments that took equally long.
    """
    contiguous = not (before.acked or after.acked or dead)
    start = before.cursor
    stop = min(before.run_end, after.acked[-1][1] if after.acked else after.cursor)
    index = max(0, bisect_right(ages.offsets, start) - 1)
    while start < stop and index < len(ages.instants):
        bucket = bucket_of(now - ages.instants[index])
        index = bisect_left(ages.instants, now - floor_of(bucket), index + 1)
        end = min(stop, ages.offsets[index]) if index < len(ages.offsets) else stop
        messages = end - start if contiguous else _settled(before, after, dead, start, end)
        if messages:
            yield bucket, messages
        start = end


def _settled(
    before: ConsumerState, after: ConsumerState, dead: Ranges, start: Offset, stop: Offset
) -> int:
    """How many of ``[start, stop)`` are completed and were not before."""
    done = _done(after, start, stop) - _done(before, start, stop)
    return done - ranges.overlap(dead, start, stop)


def _done(consumer: ConsumerState, start: Offset, stop: Offset) -> int:
    passed = max(0, min(consumer.cursor, stop) - start)
    return passed + ranges.overlap(consumer.acked, start, stop)
