"""The messages of a queue, one at a time.

Generated from ``async_consumer.py``: change that, then ``make sync``.
"""

from collections import deque
from datetime import datetime
from types import TracebackType
from typing import Self

from skep.client.consume.consume_options import ConsumeOptions, verdicts_on_leaving
from skep.client.consume.sync_lease_keeper import Fetcher, Hold
from skep.client.sync_client import Client
from skep.errors import Invalid
from skep.model.message import Message
from skep.model.name import QUEUE_MODE
from skep.model.operation import verdicts_on


class Consumer:
    """The messages of a queue for a group, one at a time.

    Usage::

        with Consumer(client, "orders", group="billing") as messages:
            for message in messages:
                ...

    A message is acknowledged when the loop comes back for the next one. If the loop's body
    raises, the message has failed; if it is left with ``break``, the message is given back, and
    so is what was not begun. The lease is renewed between two messages when a third of it has
    passed: one message must not take longer than the lease lasts.
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
        self.asked = ConsumeOptions(
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
        self._fetcher = Fetcher(client, self.asked)
        self._entered = False
        self._current: Message | None = None
        self._left: deque[Message] = deque()
        self._completed: set[int] = set()
        """The partitions of the delivery of which something is acknowledged."""
        self.hold: Hold | None = None
        """The delivery in hand."""

    def __enter__(self) -> Self:
        self._entered = True
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.leave(exc)

    def __iter__(self) -> Self:
        if not self._entered:
            # Without it nobody would learn that the body of the loop has raised.
            raise Invalid("consumer", "must be entered with `with` before it is iterated over")
        return self

    def __next__(self) -> Message:
        self.done()
        while not self.has_next:
            self.take()
        return self.begin()

    @property
    def has_next(self) -> bool:
        return bool(self._left)

    def take(self) -> None:
        """Pop once."""
        delivery = self._fetcher.fetch()
        if delivery is not None:
            self.hold = Hold(self._client, delivery)
            self._left.extend(delivery.messages)
            self._completed.clear()

    def begin(self) -> Message:
        """Take the next message in hand."""
        self._current = self._left.popleft()
        return self._current

    def done(self) -> None:
        """Acknowledge the message in hand, if there is one, and keep the rest."""
        message, hold = self._current, self.hold
        if message is None or hold is None:
            return
        self._current = None
        hold.settle(verdicts_on([message], "completed"))
        self._completed.add(message.partition_number)
        if self._left and hold.is_due:
            hold.renew()
        if hold.lost:
            self._left.clear()

    def leave(self, error: BaseException | None) -> None:
        """Fail the message in hand if there is an error; give back what is left."""
        hold, self.hold = self.hold, None
        if hold is not None:
            verdicts = verdicts_on_leaving(self._current, self._left, self._completed, error)
            self._current = None
            self._left.clear()
            hold.settle(verdicts)
