"""Consume a queue with handlers that run in threads, until told to stop.

The blocking counterpart of ``async_worker.py``. It is not generated, because a thread cannot be
cancelled as a task can: one thread pops, in short waits, and a pool of threads runs the handlers.
"""

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from functools import partial
from inspect import iscoroutinefunction
from queue import Empty, SimpleQueue
from threading import Event, Semaphore, Thread
from types import FrameType
from typing import TypeAlias, TypeVar

from skep.client.consume.consume_options import ConsumeOptions
from skep.client.consume.outcome import verdicts_on_failure
from skep.client.consume.stop_signal import SIGNALS
from skep.client.consume.sync_lease_keeper import LeaseKeeper
from skep.client.consume.sync_poller import Poller
from skep.client.sync_client import Client
from skep.errors import Invalid
from skep.model.message import Delivery, Message
from skep.model.name import QUEUE_MODE, check_count
from skep.model.operation import Verdict, verdicts_on

MAX_CONCURRENCY = 1000
MAX_WAIT_SECONDS = 1.0
"""Longest wait of one pop: a blocking request cannot be interrupted, and ``stop`` waits for it."""

Handler: TypeAlias = Callable[[Message], None]
BatchHandler: TypeAlias = Callable[[list[Message]], None]
H = TypeVar("H", bound=Handler)
B = TypeVar("B", bound=BatchHandler)
_Work: TypeAlias = Callable[[LeaseKeeper, list[Verdict]], None]


class Worker:
    """Consumes a queue for a group with a handler, ``concurrency`` deliveries at a time.

    Usage::

        worker = Worker(client, "orders", group="billing", concurrency=10)

        @worker.handler
        def handle(message: Message) -> None: ...

        worker.run()

    Handlers run in threads: messages of one delivery in order, different deliveries at the same
    time. Leases, failures and ``max_backoff`` are those of ``AsyncWorker``.

    ``stop`` can be called from any thread and from a handler: messages that are being handled are
    finished, all others are released for redelivery. ``run`` returns about a second later at the
    latest, or when the last handler returns. With ``install_signal_handlers``, SIGTERM and SIGINT
    call it; ``run`` must then be called in the main thread.
    """

    def __init__(
        self,
        client: Client,
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
        self._options = ConsumeOptions(
            queue=queue,
            group=group,
            batch=batch,
            partitions=partitions,
            wait=min(wait, MAX_WAIT_SECONDS),
            lease_seconds=lease_seconds,
            subscription_mode=subscription_mode,
            subscription_from=subscription_from,
            max_backoff=max_backoff,
        )
        self._concurrency = check_count("concurrency", concurrency, least=1, most=MAX_CONCURRENCY)
        self._install_signal_handlers = install_signal_handlers
        self._stopping = False
        # Unlike those of an Event, its methods may be called in a signal handler.
        self._stops: SimpleQueue[None] = SimpleQueue()
        self._keepers: set[LeaseKeeper] = set()
        self._work: _Work | None = None

    def stop(self) -> None:
        """Finish the messages that are being handled, release all others, and end."""
        self._stopping = True
        self._stops.put(None)

    def holds(self, message: Message) -> bool:
        """Whether the lease of a message that is being handled is not known to be lost."""
        return any(keeper.holds(message) for keeper in self._keepers.copy())

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

    def run(self, handler: Handler | None = None) -> None:
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
                stack.enter_context(self._on_signals())
            self._run(self._work)

    def run_batches(self, handler: BatchHandler) -> None:
        """Like ``run``, with a handler that takes all messages of a delivery at once."""
        self.batch_handler(handler)
        self.run()

    def _run(self, work: _Work) -> None:
        errors: list[BaseException] = []
        slots = Semaphore(self._concurrency)

        def finished(future: Future[None]) -> None:
            if error := future.exception():
                errors.append(error)
                self.stop()
            slots.release()

        with ThreadPoolExecutor(self._concurrency, thread_name_prefix="skep-worker") as pool:
            try:
                for delivery in self._deliveries(slots):
                    pool.submit(self._handle, delivery, work).add_done_callback(finished)
            finally:
                # The pool then waits until the handlers have finished their messages.
                self.stop()
        if errors:
            raise errors[0]

    def _deliveries(self, slots: Semaphore) -> Iterator[Delivery]:
        """Pop until a stop is requested, each time after taking a slot for the delivery."""
        poller = Poller(self._client, self._options)
        slots.acquire()
        while not self._stopping:
            delivery = poller.pop()
            if delivery is not None:
                yield delivery
                slots.acquire()
            else:
                with suppress(Empty):
                    self._stops.get(timeout=poller.delay)

    def _handle(self, delivery: Delivery, work: _Work) -> None:
        keeper = LeaseKeeper(self._client, delivery)
        verdicts: list[Verdict] = []
        self._keepers.add(keeper)
        try:
            with _renewed(keeper):
                work(keeper, verdicts)
        finally:
            self._keepers.discard(keeper)
            unhandled = delivery.messages[len(verdicts) :]
            keeper.settle(verdicts + (verdicts_on(unhandled, "retry") if unhandled else []))

    def _per_message(self, handler: Handler) -> _Work:
        _check_handler(handler)

        def work(keeper: LeaseKeeper, verdicts: list[Verdict]) -> None:
            for message in keeper.delivery.messages:
                if self._stopping or keeper.lost:
                    return
                verdicts += _outcome([message], partial(handler, message))

        return work

    def _per_delivery(self, handler: BatchHandler) -> _Work:
        _check_handler(handler)

        def work(keeper: LeaseKeeper, verdicts: list[Verdict]) -> None:
            if not self._stopping:
                messages = keeper.delivery.messages
                verdicts += _outcome(messages, partial(handler, messages))

        return work

    @contextmanager
    def _on_signals(self) -> Iterator[None]:
        """Stop at the first SIGTERM or SIGINT; the second has its previous effect."""
        previous = {number: signal.getsignal(number) for number in SIGNALS}

        def restore() -> None:
            for number, handler in previous.items():
                signal.signal(number, handler)

        def stop_once(number: int, frame: FrameType | None) -> None:
            self.stop()
            restore()

        for number in SIGNALS:
            signal.signal(number, stop_once)
        try:
            yield
        finally:
            restore()


def _outcome(messages: list[Message], handle: Callable[[], None]) -> list[Verdict]:
    try:
        handle()
    except Exception as error:
        return verdicts_on_failure(messages, error)
    return verdicts_on(messages, "completed")


@contextmanager
def _renewed(keeper: LeaseKeeper) -> Iterator[None]:
    """Renew the lease in a thread until the context is left.

    The thread is joined: a renewal after the settlement would report a lost lease.
    """
    done = Event()
    renewal = Thread(target=_renew_until, args=(keeper, done), name="skep-renewal", daemon=True)
    renewal.start()
    try:
        yield
    finally:
        done.set()
        renewal.join()


def _renew_until(keeper: LeaseKeeper, done: Event) -> None:
    while not keeper.lost and not done.wait(keeper.renew_after):
        keeper.renew()


def _check_handler(handler: object) -> None:
    if not callable(handler) or iscoroutinefunction(handler):
        raise Invalid("handler", "must be a function, not async; see AsyncWorker for those")
