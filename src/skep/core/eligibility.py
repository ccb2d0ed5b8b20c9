"""When a partition may be delivered to a group. Pure: no clock, no store."""

from skep.model.consumer import Consumer
from skep.model.names import SECOND, Instant, Offset
from skep.model.queue import QueueOptions
from skep.model.segment import Segment

EXCEEDED_WAIT = "exceeded maximum wait time"


def due_at(
    options: QueueOptions, consumer: Consumer, *, end: Offset, newest_at: Instant
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


def visible_at(options: QueueOptions, segment: Segment) -> Instant:
    """When the delay of the messages of a segment is over."""
    return segment.created_at + options.delayed_processing * SECOND


def waited_too_long(options: QueueOptions, created_at: Instant, now: Instant) -> bool:
    """Whether a message of this age is to be given up instead of being delivered."""
    limit = options.max_wait_time_seconds * SECOND
    return bool(limit) and created_at + limit < now
