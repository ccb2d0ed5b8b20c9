"""When a batch that failed is delivered again. Pure: no clock, no store."""

from skep.model.name import MILLISECOND, SECOND, Instant
from skep.model.queue import QueueOptions

MAX_DELAY = 3600 * SECOND
"""The longest delay, jitter and all, unless the queue's own delay is longer."""

JITTER = 0.2
"""A delay is stretched by up to this part, so that consumers that failed together part ways."""


def retry_at(options: QueueOptions, *, retries: int, now: Instant, jitter: float) -> Instant | None:
    """The instant of the next delivery after ``retries`` earlier failures; None to give up.

    ``jitter`` is from 0 to 1.
    """
    if retries >= options.retry_limit:
        return None
    return now + _delay(options, retries, jitter)


def latest_retry_at(options: QueueOptions, *, retries: int, now: Instant) -> Instant:
    """The latest that a batch which has failed ``retries`` times may have to wait, from now."""
    return now + _delay(options, max(0, retries - 1), 1)


def _delay(options: QueueOptions, retries: int, jitter: float) -> int:
    first = options.retry_delay * MILLISECOND
    stretch = 1 + JITTER * jitter
    if first > MAX_DELAY:
        return int(first * stretch)
    # The exponent is capped before the product: 2 ** 64 seconds are no use to anyone.
    return min(int((first << min(retries, 30)) * stretch), MAX_DELAY)
