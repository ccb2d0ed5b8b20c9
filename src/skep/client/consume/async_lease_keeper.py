"""Getting deliveries and keeping them, whatever happens to the server.

The source of ``sync_hold.py``, which ``make sync`` writes.
"""

import asyncio
import logging
from collections.abc import Sequence
from time import monotonic

from skep.client.async_client import AsyncClient
from skep.client.consume.consume_options import ConsumeOptions
from skep.client.retry import Retry
from skep.errors import LeaseLost, OutcomeUnknown, SkepError, Unavailable
from skep.model.message import Delivery, Message
from skep.model.operation import Verdict

DEFAULT_LEASE_SECONDS = 60
"""If the server does not say how long a lease lasts."""
PATIENCE = 30.0
"""Seconds for which a settlement is tried although the server cannot be reached."""
_PAUSE = 1.0
"""Seconds before the next pop, if one came back empty although it was told to wait."""

_log = logging.getLogger("skep.consumer")


class AsyncFetcher:
    """Pops again and again. A server that is away for a while is waited for."""

    def __init__(self, client: AsyncClient, asked: ConsumeOptions) -> None:
        self._client = client
        self._asked = asked
        self._backoff = Retry(first_delay=0.5, max_delay=asked.max_backoff)
        self._failures = 0

    async def fetch(self) -> Delivery | None:
        """What the next pop gives; None, perhaps after a pause, if that is nothing."""
        asked, began = self._asked, monotonic()
        try:
            delivery = await self._client.pop(
                asked.queue,
                group=asked.group,
                batch=asked.batch,
                partitions=asked.partitions,
                wait=asked.wait,
                lease_seconds=asked.lease_seconds,
                subscription_mode=asked.subscription_mode,
                subscription_from=asked.subscription_from,
            )
        except (Unavailable, OutcomeUnknown) as error:
            self._failures += 1
            pause = self._backoff.delay(self._failures)
            _log.warning("no messages of %r, next try in %.1f s: %s", asked.queue, pause, error)
        else:
            self._failures = 0
            # A server that is about to end, or in maintenance, answers at once.
            early = monotonic() - began < asked.wait / 2 or not asked.wait
            if delivery is not None or not early:
                return delivery
            pause = min(_PAUSE, asked.max_backoff)
        await asyncio.sleep(pause)
        return None


class AsyncHold:
    """A delivery in hand: its lease is kept, and what became of its messages is reported."""

    def __init__(self, client: AsyncClient, delivery: Delivery) -> None:
        self._client = client
        self._renewed = monotonic()
        self.delivery = delivery
        self.lease_seconds = delivery.lease_seconds or DEFAULT_LEASE_SECONDS
        self.lost = False
        """Whether the lease is over, as far as is known: others may have the messages."""

    @property
    def renew_after(self) -> float:
        """Seconds between renewals: two may fail before the lease is over."""
        return self.lease_seconds / 3

    @property
    def is_due(self) -> bool:
        return monotonic() - self._renewed >= self.renew_after

    def has(self, message: Message) -> bool:
        return not self.lost and any(message is each for each in self.delivery.messages)

    async def renew(self) -> None:
        """Keep the lease for as long again. If that fails for now, the next one may not."""
        began = monotonic()
        try:
            await self._client.extend(self.delivery, self.lease_seconds)
        except LeaseLost as error:
            self._lose(error)
        except SkepError as error:
            _log.warning("a lease could not be renewed: %s", error)
        else:
            self._renewed = began

    async def settle(self, verdicts: Sequence[Verdict]) -> None:
        """Report what became of messages; not if the lease is lost, and not for ever."""
        until = monotonic() + PATIENCE
        while verdicts and not self.lost:
            try:
                await self._report(verdicts)
            except LeaseLost as error:
                self._lose(error)
            except (Unavailable, OutcomeUnknown) as error:
                if monotonic() >= until:
                    self._lose(error)
                else:
                    await asyncio.sleep(_PAUSE)
            else:
                return

    async def _report(self, verdicts: Sequence[Verdict]) -> None:
        completed = all(verdict.status == "completed" for verdict in verdicts)
        if completed and len(verdicts) == len(self.delivery.messages):
            # As it mostly is: then it need not be said of each message.
            await self._client.ack(self.delivery)
        else:
            await self._client.settle(self.delivery, verdicts)

    def _lose(self, error: SkepError) -> None:
        self.lost = True
        first = self.delivery.messages[0]
        _log.warning(
            "a delivery of %d messages, from %s/%s offset %d on, may come again: %s",
            len(self.delivery.messages),
            first.queue,
            first.partition,
            first.offset,
            error,
        )
