"""Consume a queue with handlers, several deliveries at a time, until told to stop."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from datetime import datetime
from inspect import iscoroutinefunction
from types import TracebackType
from typing import Self, TypeAlias, TypeVar

from skep.client.async_client import AsyncClient
from skep.client.consume.async_consumer import AsyncConsumer
from skep.client.consume.async_lease_keeper import AsyncLeaseKeeper
from skep.client.consume.async_poller import AsyncPoller
from skep.client.consume.outcome import verdicts_on_failure
from skep.client.consume.stop_signal import StopSignal
from skep.errors import Invalid
from skep.model.message import Delivery, Message
from skep.model.name import QUEUE_MODE, check_count
from skep.model.operation import Verdict, verdicts_on

MAX_CONCURRENCY = 10_000

Handler: TypeAlias = Callable[[Message], Awaitable[None]]
BatchHandler: TypeAlias = Callable[[list[Message]], Awaitable[None]]
H = TypeVar("H", bound=Handler)
B = TypeVar("B", bound=BatchHandler)
_Work: TypeAlias = Callable[[AsyncLeaseKeeper, list[Verdict]], Awaitable[None]]


class AsyncWorker:
    """Consumes a queue for a group, with a handler or in a loop, until it is stopped.

    With a handler, ``concurrency`` deliveries at a time::

        worker = AsyncWorker(client, "orders", group="billing", concurrency=10)

        @worker.handler
        async def handle(message: Message) -> None: ...

        await worker.run()

    With a handler of whole deliveries: see ``batch_handler`` and ``run_batches``.

    In a loop, one message at a time, as ``AsyncConsumer`` does::

        async with AsyncWorker(client, "orders", group="billing") as worker:
            async for message in worker:
                ...

    While messages are handled, their lease is renewed each time a third of it has passed. If the
    lease is lost nevertheless, because the server was unavailable for too long, the messages are
    not acknowledged and are redelivered, perhaps to another consumer: a handler can check with
    ``holds``.

    ``stop`` ends all three: messages that are being handled are finished, all others are released
    for redelivery. With ``install_signal_handlers``, SIGTERM and SIGINT call it. While the server
    is unavailable the worker retries, with delays of up to ``max_backoff`` seconds.
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
        self._consumer = AsyncConsumer(
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
        self._stopping = StopSignal()
        self._stack = ExitStack()
        self._renewal: asyncio.Task[None] | None = None
        self._keepers: set[AsyncLeaseKeeper] = set()
        self._work: _Work | None = None

    def stop(self) -> None:
        """Finish the messages that are being handled, release all others, and end."""
        self._stopping.stop()

    def holds(self, message: Message) -> bool:
        """Whether the lease of a message that is being handled is not known to be lost."""
        current = self._consumer.keeper
        keepers = (*self._keepers, *([current] if current else []))
        return any(keeper.holds(message) for keeper in keepers)

    # In a loop.

    async def __aenter__(self) -> Self:
        if self._install_signal_handlers:
            self._stack.enter_context(self._stopping.on_signals())
        await self._consumer.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self._consumer.release(exc)
        finally:
            self._renew(None)
            self._stack.close()

    def __aiter__(self) -> Self:
        self._consumer.__aiter__()
        return self

    async def __anext__(self) -> Message:
        consumer = self._consumer
        await consumer.ack_current()
        while not self._stopping and not consumer.has_next:
            self._renew(None)
            await self._stopping.interrupts(consumer.poll())
            self._renew(consumer.keeper)
        if self._stopping:
            await consumer.release(None)
            raise StopAsyncIteration
        return consumer.start_next()

    def _renew(self, keeper: AsyncLeaseKeeper | None) -> None:
        """Renew this lease in the background from now on, and no other."""
        if self._renewal is not None:
            self._renewal.cancel()
        self._renewal = asyncio.create_task(_renew_forever(keeper)) if keeper else None

    # With a handler.

    def handler(self, function: H) -> H:
        """Register the function that ``run`` calls for each message of a delivery, in order.

        If it raises, the message has failed: if all messages of the delivery fail they are
        retried later; if only some do, those become dead letters.
        """
        self._work = self._per_message(function)
        return function

    def batch_handler(self, function: B) -> B:
        """Register the function that ``run`` calls with all messages of a delivery.

        If it raises, the whole delivery is retried later.
        """
        self._work = self._per_delivery(function)
        return function

    async def run(self, handler: Handler | None = None) -> None:
        """Handle messages until ``stop`` is called.

        The messages of a delivery are settled when all of them are handled. An error of the
        server that is not temporary, such as ``Forbidden``, ends the run and is raised.
        """
        if handler is not None:
            self.handler(handler)
        if self._work is None:
            raise Invalid("handler", "must be given, here or with @worker.handler")
        with ExitStack() as stack:
            if self._install_signal_handlers:
                stack.enter_context(self._stopping.on_signals())
            await self._run(self._work)

    async def run_batches(self, handler: BatchHandler) -> None:
        """Like ``run``, with a handler that takes all messages of a delivery at once."""
        self.batch_handler(handler)
        await self.run()

    async def _run(self, work: _Work) -> None:
        tasks = [asyncio.create_task(self._consume(work)) for _ in range(self._concurrency)]
        try:
            # If one fails, the others still finish their messages.
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            self.stop()
            await asyncio.wait(tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        for task in tasks:
            task.result()

    async def _consume(self, work: _Work) -> None:
        poller = AsyncPoller(self._client, self._consumer.options)
        while not self._stopping:
            delivery = await self._stopping.interrupts(poller.poll())
            if delivery is not None:
                await self._handle(delivery, work)

    async def _handle(self, delivery: Delivery, work: _Work) -> None:
        keeper = AsyncLeaseKeeper(self._client, delivery)
        verdicts: list[Verdict] = []
        self._keepers.add(keeper)
        async with _renewed(keeper):
            try:
                await work(keeper, verdicts)
            finally:
                self._keepers.discard(keeper)
                unhandled = delivery.messages[len(verdicts) :]
                released = verdicts_on(unhandled, "retry") if unhandled else []
                await keeper.settle(verdicts + released)

    def _per_message(self, handler: Handler) -> _Work:
        _check_handler(handler)

        async def work(keeper: AsyncLeaseKeeper, verdicts: list[Verdict]) -> None:
            for message in keeper.delivery.messages:
                if self._stopping or keeper.lost:
                    return
                verdicts += await _outcome([message], handler(message))

        return work

    def _per_delivery(self, handler: BatchHandler) -> _Work:
        _check_handler(handler)

        async def work(keeper: AsyncLeaseKeeper, verdicts: list[Verdict]) -> None:
            if not self._stopping:
                messages = keeper.delivery.messages
                verdicts += await _outcome(messages, handler(messages))

        return work


async def _outcome(messages: list[Message], handling: Awaitable[None]) -> list[Verdict]:
    try:
        await handling
    except Exception as error:
        return verdicts_on_failure(messages, error)
    return verdicts_on(messages, "completed")


@asynccontextmanager
async def _renewed(keeper: AsyncLeaseKeeper) -> AsyncIterator[None]:
    """Renew the lease in the background until the context is left."""
    renewal = asyncio.create_task(_renew_forever(keeper))
    try:
        yield
    finally:
        renewal.cancel()


async def _renew_forever(keeper: AsyncLeaseKeeper) -> None:
    while not keeper.lost:
        await asyncio.sleep(keeper.renew_after)
        await keeper.renew()


def _check_handler(handler: object) -> None:
    if not iscoroutinefunction(handler):
        raise Invalid("handler", "must be an async function")
