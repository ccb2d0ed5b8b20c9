"""When a partition may be delivered to a group. Pure: no clock, no store."""

from itertools import takewhile

from skep.model.consumer import ConsumerState
from skep.model.name import SECOND, Instant, Offset
from skep.model.queue import QueueOptions
from skep.model.segment import Segment

EXCEEDED_WAIT = "exceeded maximum wait time"


def due_at(
    options: QueueOptions, consumer: ConsumerState, *, end: Offset, newest_at: Instant
) -> Instant | None:
    """The earliest instant at which something can be delivered, as far as is known.

    None if nothing waits. It may be too early, never too late: how old the message at the
    cursor really is shows when it is read.
    """
    if consumer.cursor >= end:
        return None
    due = consumer.ready_at
    if consumer.lease:
        due = max(due, consumer.lease.expires_at)
    if options.window_buffer:
        due = max(due, newest_at + options.window_buffer * SECOND)
    if options.delayed_processing:
        due = max(due, consumer.oldest_at + options.delayed_processing * SECOND)
    return due


def visible(options: QueueOptions, segments: list[Segment], now: Instant) -> list[Segment]:
    """The leading segments whose delay has passed: order is kept, so the first other ends them."""
    if not options.delayed_processing:
        return segments
    newest = now - options.delayed_processing * SECOND
    return list(takewhile(lambda segment: segment.created_at <= newest, segments))


def too_late(options: QueueOptions, segments: list[Segment], now: Instant) -> list[Segment]:
    """The first segments that waited longer than the queue allows: to be given up."""
    return list(takewhile(lambda s: waited_too_long(options, s.created_at, now), segments))


def waited_too_long(options: QueueOptions, created_at: Instant, now: Instant) -> bool:
    limit = options.max_wait_time_seconds * SECOND
    return bool(limit) and created_at + limit < now
