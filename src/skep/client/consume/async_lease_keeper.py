"""The lease of a delivery: renewal, and settlement of its messages.

The source of ``sync_lease_keeper.py``, which ``make sync`` writes.
"""

import asyncio
import logging
from collections.abc import Sequence
from time import monotonic

from skep.client.async_client import AsyncClient
from skep.errors import LeaseLost, OutcomeUnknown, SkepError, Unavailable
from skep.model.message import Delivery, Message
from skep.model.operation import Verdict

DEFAULT_LEASE_SECONDS = 60
"""Used if the server does not report how long the lease lasts."""
SETTLE_TIMEOUT_SECONDS = 30.0
"""How long a settlement is retried while the server is unavailable."""
_SETTLE_DELAY_SECONDS = 1.0

_log = logging.getLogger("skep.consumer")


class AsyncLeaseKeeper:
    """Renews the lease of one delivery and settles its messages."""

    def __init__(self, client: AsyncClient, delivery: Delivery) -> None:
        self._client = client
        self._renewed_at = monotonic()
        self.delivery = delivery
        self.lease_seconds = delivery.lease_seconds or DEFAULT_LEASE_SECONDS
        self.lost = False
        """Whether the lease is known to be over: the messages may be redelivered to others."""

    @property
    def renew_after(self) -> float:
        """Seconds between renewals: two may fail before the lease expires."""
        return self.lease_seconds / 3

    @property
    def is_due(self) -> bool:
        """Whether it is time to renew the lease."""
        return monotonic() - self._renewed_at >= self.renew_after

    def holds(self, message: Message) -> bool:
        """Whether the message is part of this delivery and its lease is not known to be lost."""
        return not self.lost and any(message is other for other in self.delivery.messages)

    async def renew(self) -> None:
        """Extend the lease by its full length. A temporary failure is logged, not raised."""
        started = monotonic()
        try:
            await self._client.extend(self.delivery, self.lease_seconds)
        except LeaseLost as error:
            self._lose(error)
        except SkepError as error:
            _log.warning(
                "lease renewal failed: queue=%s lease=%s error=%s",
                self.delivery.messages[0].queue,
                self.delivery.lease_id,
                error,
            )
        else:
            self._renewed_at = started

    async def settle(self, verdicts: Sequence[Verdict]) -> None:
        """Report the outcome of messages; retried while the server is unavailable.

        Does nothing if the lease is lost, and gives up after ``SETTLE_TIMEOUT_SECONDS``: the
        messages are then redelivered.
        """
        deadline = monotonic() + SETTLE_TIMEOUT_SECONDS
        while verdicts and not self.lost:
            try:
                await self._settle_once(verdicts)
            except LeaseLost as error:
                self._lose(error)
            except (Unavailable, OutcomeUnknown) as error:
                if monotonic() >= deadline:
                    self._lose(error)
                else:
                    await asyncio.sleep(_SETTLE_DELAY_SECONDS)
            else:
                return

    async def _settle_once(self, verdicts: Sequence[Verdict]) -> None:
        completed = all(verdict.status == "completed" for verdict in verdicts)
        if completed and len(verdicts) == len(self.delivery.messages):
            # The common case needs no list of messages in the request.
            await self._client.ack(self.delivery)
        else:
            await self._client.settle(self.delivery, verdicts)

    def _lose(self, error: SkepError) -> None:
        self.lost = True
        first = self.delivery.messages[0]
        _log.warning(
            "lease lost, messages may be redelivered: "
            "queue=%s partition=%s offset=%d messages=%d error=%s",
            first.queue,
            first.partition,
            first.offset,
            len(self.delivery.messages),
            error,
        )
