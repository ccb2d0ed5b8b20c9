"""Consume a queue message by message, in a loop.

The source of ``sync_consumer.py``, which ``make sync`` writes.
"""

from collections import deque
from datetime import datetime
from types import TracebackType
from typing import Self

from skep.client.async_client import AsyncClient
from skep.client.consume.async_lease_keeper import AsyncLeaseKeeper
from skep.client.consume.async_poller import AsyncPoller
from skep.client.consume.consume_options import ConsumeOptions
from skep.client.consume.outcome import verdicts_on_exit
from skep.errors import Invalid
from skep.model.message import Message
from skep.model.name import QUEUE_MODE
from skep.model.operation import verdicts_on


class AsyncConsumer:
    """Iterates over the messages of a queue for a group, one at a time.

    Usage::

        async with AsyncConsumer(client, "orders", group="billing") as consumer:
            async for message in consumer:
                ...

    A message is acknowledged when the loop asks for the next one. If the loop body raises, the
    message has failed. If the loop is left with ``break``, the current message and those not yet
    started are released for redelivery. The lease is renewed between two messages when a third
    of it has passed: the loop body must not take longer than the lease lasts.
    """

    def __init__(
        self,
        client: AsyncClient,
        queue: str,
        *,
        group: str = QUEUE_MODE,
        batch: int = 10,
        partitions: int = 1,
        wait: float = 30.0,
        lease_seconds: int | None = None,
        subscription_mode: str = "all",
        subscription_from: datetime | None = None,
        max_backoff: float = 30.0,
    ) -> None:
        self.options = ConsumeOptions(
            queue=queue,
            group=group,
            batch=batch,
            partitions=partitions,
            wait=wait,
            lease_seconds=lease_seconds,
            subscription_mode=subscription_mode,
            subscription_from=subscription_from,
            max_backoff=max_backoff,
        )
        self._client = client
        self._poller = AsyncPoller(client, self.options)
        self._entered = False
        self._current: Message | None = None
        self._remaining: deque[Message] = deque()
        self._completed: set[int] = set()
        """The partitions of the delivery of which at least one message is acknowledged."""
        self.keeper: AsyncLeaseKeeper | None = None
        """The lease of the current delivery."""

    async def __aenter__(self) -> Self:
        self._entered = True
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.release(exc)

    def __aiter__(self) -> Self:
        if not self._entered:
            # Only `__aexit__` learns that the loop body raised.
            raise Invalid("consumer", "must be entered with `with` before it is iterated over")
        return self

    async def __anext__(self) -> Message:
        await self.ack_current()
        while not self.has_next:
            await self.poll()
        return self.start_next()

    @property
    def has_next(self) -> bool:
        """Whether a message of the current delivery is not started yet."""
        return bool(self._remaining)

    async def poll(self) -> None:
        """Pop once."""
        delivery = await self._poller.poll()
        if delivery is not None:
            self.keeper = AsyncLeaseKeeper(self._client, delivery)
            self._remaining.extend(delivery.messages)
            self._completed.clear()

    def start_next(self) -> Message:
        """Return the next message of the current delivery."""
        self._current = self._remaining.popleft()
        return self._current

    async def ack_current(self) -> None:
        """Acknowledge the current message, if there is one; renew the lease if that is due."""
        message, keeper = self._current, self.keeper
        if message is None or keeper is None:
            return
        self._current = None
        await keeper.settle(verdicts_on([message], "completed"))
        self._completed.add(message.partition_number)
        if self._remaining and keeper.is_due:
            await keeper.renew()
        if keeper.lost:
            self._remaining.clear()

    async def release(self, error: BaseException | None) -> None:
        """Fail the current message if there is an error; release the rest for redelivery."""
        keeper, self.keeper = self.keeper, None
        if keeper is not None:
            verdicts = verdicts_on_exit(self._current, self._remaining, self._completed, error)
            self._current = None
            self._remaining.clear()
            await keeper.settle(verdicts)
