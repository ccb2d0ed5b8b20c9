"""When a batch that failed is delivered again. Pure: no clock, no store."""

from skep.model.names import MILLISECOND, SECOND, Instant
from skep.model.queue import QueueOptions

MAX_DELAY = 3600 * SECOND
JITTER = 0.2
"""A delay is stretched by up to this part, so that consumers that failed together part ways."""


def retry_at(options: QueueOptions, *, retries: int, now: Instant, luck: float) -> Instant | None:
    """The instant of the next delivery after ``retries`` earlier failures; None to give up.

    ``luck``, from 0 to 1, decides the jitter.
    """
    if retries >= options.retry_limit:
        return None
    # The exponent is capped before the product: 2 ** 64 seconds are no use to anyone.
    delay = min(options.retry_delay * MILLISECOND * 2 ** min(retries, 30), MAX_DELAY)
    return now + int(delay * (1 + JITTER * luck))
