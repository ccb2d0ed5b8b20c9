"""Pop with backoff.

The source of ``sync_poller.py``, which ``make sync`` writes.
"""

import asyncio
import logging
from time import monotonic

from skep.client.async_client import AsyncClient
from skep.client.consume.consume_options import ConsumeOptions
from skep.client.retry import Retry
from skep.errors import OutcomeUnknown, SkepError, Unavailable
from skep.model.message import Delivery

_FIRST_DELAY_SECONDS = 0.5
"""Delay after the first failed pop; it doubles from there, up to ``max_backoff``."""
_EMPTY_DELAY_SECONDS = 1.0
"""Delay after a pop that returned empty at once although it asked the server to wait."""

_log = logging.getLogger("skep.consumer")


class AsyncPoller:
    """Pops repeatedly, and retries with backoff while the server is unavailable."""

    def __init__(self, client: AsyncClient, options: ConsumeOptions) -> None:
        self._client = client
        self._options = options
        self._backoff = Retry(first_delay=_FIRST_DELAY_SECONDS, max_delay=options.max_backoff)
        self._failures = 0
        self.delay = 0.0
        """Seconds to wait before the next pop."""

    async def poll(self) -> Delivery | None:
        """Pop once and wait for the delay that follows; None if there is no delivery."""
        delivery = await self.pop()
        if self.delay:
            await asyncio.sleep(self.delay)
        return delivery

    async def pop(self) -> Delivery | None:
        """Pop once; None if there is no message or the server is unavailable.

        A failed pop is followed by a growing delay, an empty one that came back early by a
        short one.
        """
        options, started = self._options, monotonic()
        try:
            delivery = await self._client.pop(
                options.queue,
                group=options.group,
                batch=options.batch,
                partitions=options.partitions,
                wait=options.wait,
                lease_seconds=options.lease_seconds,
                subscription_mode=options.subscription_mode,
                subscription_from=options.subscription_from,
            )
        except (Unavailable, OutcomeUnknown) as error:
            self._back_off(error)
            return None
        self._failures = 0
        # A server that shuts down or is in maintenance responds at once.
        is_early = monotonic() - started < options.wait / 2 or not options.wait
        is_empty = delivery is None and is_early
        self.delay = min(_EMPTY_DELAY_SECONDS, options.max_backoff) if is_empty else 0.0
        return delivery

    def _back_off(self, error: SkepError) -> None:
        self._failures += 1
        self.delay = self._backoff.delay(self._failures)
        _log.warning(
            "pop failed, retrying: queue=%s group=%s delay=%.1fs error=%s",
            self._options.queue,
            self._options.group,
            self.delay,
            error,
        )
