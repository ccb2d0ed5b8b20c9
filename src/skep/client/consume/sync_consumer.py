"""Consume a queue message by message, in a loop.

Generated from ``async_consumer.py``: change that, then ``make sync``.
"""

from collections import deque
from datetime import datetime
from types import TracebackType
from typing import Self

from skep.client.consume.consume_options import ConsumeOptions
from skep.client.consume.outcome import verdicts_on_exit
from skep.client.consume.sync_lease_keeper import LeaseKeeper
from skep.client.consume.sync_poller import Poller
from skep.client.sync_client import Client
from skep.errors import Invalid
from skep.model.message import Message
from skep.model.name import QUEUE_MODE
from skep.model.operation import verdicts_on


class Consumer:
    """Iterates over the messages of a queue for a group, one at a time.

    Usage::

        with Consumer(client, "orders", group="billing") as consumer:
            for message in consumer:
                ...

    A message is acknowledged when the loop asks for the next one. If the loop body raises, the
    message has failed. If the loop is left with ``break``, the current message and those not yet
    started are released for redelivery. The lease is renewed between two messages when a third
    of it has passed: the loop body must not take longer than the lease lasts.
    """

    def __init__(
        self,
        client: Client,
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
        self._poller = Poller(client, self.options)
        self._entered = False
        self._current: Message | None = None
        self._remaining: deque[Message] = deque()
        self._completed: set[int] = set()
        """The partitions of the delivery of which at least one message is acknowledged."""
        self.keeper: LeaseKeeper | None = None
        """The lease of the current delivery."""

    def __enter__(self) -> Self:
        self._entered = True
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release(exc)

    def __iter__(self) -> Self:
        if not self._entered:
            # Only `__exit__` learns that the loop body raised.
            raise Invalid("consumer", "must be entered with `with` before it is iterated over")
        return self

    def __next__(self) -> Message:
        self.ack_current()
        while not self.has_next:
            self.poll()
        return self.start_next()

    @property
    def has_next(self) -> bool:
        """Whether a message of the current delivery is not started yet."""
        return bool(self._remaining)

    def poll(self) -> None:
        """Pop once."""
        delivery = self._poller.poll()
        if delivery is not None:
            self.keeper = LeaseKeeper(self._client, delivery)
            self._remaining.extend(delivery.messages)
            self._completed.clear()

    def start_next(self) -> Message:
        """Return the next message of the current delivery."""
        self._current = self._remaining.popleft()
        return self._current

    def ack_current(self) -> None:
        """Acknowledge the current message, if there is one; renew the lease if that is due."""
        message, keeper = self._current, self.keeper
        if message is None or keeper is None:
            return
        self._current = None
        keeper.settle(verdicts_on([message], "completed"))
        self._completed.add(message.partition_number)
        if self._remaining and keeper.is_due:
            keeper.renew()
        if keeper.lost:
            self._remaining.clear()

    def release(self, error: BaseException | None) -> None:
        """Fail the current message if there is an error; release the rest for redelivery."""
        keeper, self.keeper = self.keeper, None
        if keeper is not None:
            verdicts = verdicts_on_exit(self._current, self._remaining, self._completed, error)
            self._current = None
            self._remaining.clear()
            keeper.settle(verdicts)
