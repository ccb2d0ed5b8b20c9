"""A consumer: pop, keep the lease, handle, acknowledge or fail, and stop without losing a thing."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from datetime import datetime
from inspect import iscoroutinefunction
from types import TracebackType
from typing import Self, TypeAlias, TypeVar

from skep.client.async_client import AsyncClient
from skep.client.consume.async_consumer import AsyncLoop
from skep.client.consume.async_lease_keeper import AsyncFetcher, AsyncHold
from skep.client.consume.consume_options import describe
from skep.client.consume.stop_signal import Stopping
from skep.errors import Invalid
from skep.model.message import Delivery, Message
from skep.model.name import QUEUE_MODE, check_count
from skep.model.operation import Verdict, verdicts_on

MAX_CONCURRENCY = 10_000

Handler: TypeAlias = Callable[[Message], Awaitable[None]]
BatchHandler: TypeAlias = Callable[[list[Message]], Awaitable[None]]
H = TypeVar("H", bound=Handler)
B = TypeVar("B", bound=BatchHandler)
_Work: TypeAlias = Callable[[AsyncHold, list[Verdict]], Awaitable[None]]

_log = logging.getLogger("skep.consumer")


class AsyncConsumer:
    """Consumes a queue for a group, in one of three ways.

    One message at a time, in a loop::

        async with AsyncConsumer(client, "orders", group="billing") as consumer:
            async for message in consumer:
                ...

    A message is acknowledged when the loop comes back for the next one. If the loop's body
    raises, the message has failed; if it is left with ``break``, it is given back.

    With a handler, ``concurrency`` deliveries at a time::

        consumer = AsyncConsumer(client, "orders", group="billing", concurrency=10)

        @consumer.handler
        async def handle(message: Message) -> None: ...

        await consumer.run()

    Or with a handler of whole deliveries, see ``batch_handler`` and ``run_batches``.

    While messages are handled their lease is renewed, each time a third of it has passed. If it
    is lost all the same, because the server was away for too long, the messages are not
    acknowledged and come again, perhaps elsewhere: ``holds`` tells a handler that wants to know.

    ``stop`` ends all three: what was begun is finished, what was not is given back. With
    ``install_signal_handlers`` SIGTERM and SIGINT call it. A server that cannot be reached is
    waited for, with pauses of up to ``max_backoff`` seconds.
    """

    def __init__(
        self,
        client: AsyncClient,
        queue: str,
        *,
        group: str = QUEUE_MODE,
        batch: int = 10,
        partitions: int = 1,
        concurrency: int = 1,
        wait: float = 30.0,
        lease_seconds: int | None = None,
        subscription_mode: str = "all",
        subscription_from: datetime | None = None,
        max_backoff: float = 30.0,
        install_signal_handlers: bool = False,
    ) -> None:
        self._client = client
        self._messages = AsyncLoop(
            client,
            queue,
            group=group,
            batch=batch,
            partitions=partitions,
            wait=wait,
            lease_seconds=lease_seconds,
            subscription_mode=subscription_mode,
            subscription_from=subscription_from,
            max_backoff=max_backoff,
        )
        self._concurrency = check_count("concurrency", concurrency, least=1, most=MAX_CONCURRENCY)
        self._install_signal_handlers = install_signal_handlers
        self._stopping = Stopping()
        self._stack = ExitStack()
        self._keeping: asyncio.Task[None] | None = None
        self._holds: set[AsyncHold] = set()
        self._work: _Work | None = None

    def stop(self) -> None:
        """Finish what was begun, give back what was not, and end."""
        self._stopping.stop()

    def holds(self, message: Message) -> bool:
        """Whether the lease of a message that is being handled still lives, as far as is known."""
        current = self._messages.hold
        return any(hold.has(message) for hold in (*self._holds, *([current] if current else [])))

    # One at a time.

    async def __aenter__(self) -> Self:
        if self._install_signal_handlers:
            self._stack.enter_context(self._stopping.on_signals())
        await self._messages.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self._messages.leave(exc)
        finally:
            self._keep(None)
            self._stack.close()

    def __aiter__(self) -> Self:
        self._messages.__aiter__()
        return self

    async def __anext__(self) -> Message:
        messages = self._messages
        await messages.done()
        while not self._stopping and not messages.has_next:
            self._keep(None)
            await self._stopping.unless(messages.take())
            self._keep(messages.hold)
        if self._stopping:
            await messages.leave(None)
            raise StopAsyncIteration
        return messages.begin()

    def _keep(self, hold: AsyncHold | None) -> None:
        """Renew this lease from now on, and no other."""
        if self._keeping is not None:
            self._keeping.cancel()
        self._keeping = asyncio.create_task(_renew(hold)) if hold else None

    # With a handler.

    def handler(self, function: H) -> H:
        """Let ``run`` call this for every message, one after the other within a delivery.

        If it raises, the message has failed: among others that succeed it becomes a dead
        letter, and if all of the delivery fails it comes again later.
        """
        self._work = self._each(function)
        return function

    def batch_handler(self, function: B) -> B:
        """Let ``run`` call this for every delivery; if it raises all of it comes again later."""
        self._work = self._whole(function)
        return function

    async def run(self, handler: Handler | None = None) -> None:
        """Handle messages until ``stop`` is called.

        What became of the messages of a delivery is reported when all of it is handled. An
        error of the server that will not pass, such as ``Forbidden``, ends it too, and is raised.
        """
        if handler is not None:
            self.handler(handler)
        if self._work is None:
            raise Invalid("handler", "must be given, here or with @consumer.handler")
        with ExitStack() as stack:
            if self._install_signal_handlers:
                stack.enter_context(self._stopping.on_signals())
            await self._run(self._work)

    async def run_batches(self, handler: BatchHandler) -> None:
        """As ``run``, with a handler that takes all messages of a delivery at once."""
        self.batch_handler(handler)
        await self.run()

    async def _run(self, work: _Work) -> None:
        workers = [asyncio.create_task(self._consume(work)) for _ in range(self._concurrency)]
        try:
            # If one fails the others come to their end in order.
            await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
            self.stop()
            await asyncio.wait(workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.wait(workers)
        for worker in workers:
            worker.result()

    async def _consume(self, work: _Work) -> None:
        fetcher = AsyncFetcher(self._client, self._messages.asked)
        while not self._stopping:
            delivery = await self._stopping.unless(fetcher.fetch())
            if delivery is not None:
                await self._handle(delivery, work)

    async def _handle(self, delivery: Delivery, work: _Work) -> None:
        hold = AsyncHold(self._client, delivery)
        verdicts: list[Verdict] = []
        self._holds.add(hold)
        async with _kept(hold):
            try:
                await work(hold, verdicts)
            finally:
                self._holds.discard(hold)
                rest = delivery.messages[len(verdicts) :]
                await hold.settle(verdicts + (verdicts_on(rest, "retry") if rest else []))

    def _each(self, handler: Handler) -> _Work:
        _check_handler(handler)

        async def work(hold: AsyncHold, verdicts: list[Verdict]) -> None:
            for message in hold.delivery.messages:
                if self._stopping or hold.lost:
                    return
                verdicts += await _judge([message], handler(message))

        return work

    def _whole(self, handler: BatchHandler) -> _Work:
        _check_handler(handler)

        async def work(hold: AsyncHold, verdicts: list[Verdict]) -> None:
            if not self._stopping:
                messages = hold.delivery.messages
                verdicts += await _judge(messages, handler(messages))

        return work


async def _judge(messages: list[Message], handling: Awaitable[None]) -> list[Verdict]:
    """What to report of messages after they were handled."""
    try:
        await handling
    except Exception as error:
        first = messages[0]
        place = f"{first.queue}/{first.partition} offset {first.offset}"
        _log.exception("%d messages, from %s on, have failed", len(messages), place)
        return verdicts_on(messages, "failed", describe(error))
    return verdicts_on(messages, "completed")


@asynccontextmanager
async def _kept(hold: AsyncHold) -> AsyncIterator[None]:
    """The lease is renewed until this is left."""
    renewing = asyncio.create_task(_renew(hold))
    try:
        yield
    finally:
        renewing.cancel()


async def _renew(hold: AsyncHold) -> None:
    while not hold.lost:
        await asyncio.sleep(hold.renew_after)
        await hold.renew()


def _check_handler(handler: object) -> None:
    if not iscoroutinefunction(handler):
        raise Invalid("handler", "must be an async function")
