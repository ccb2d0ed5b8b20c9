"""A request to stop, from code or from a signal of the operating system."""

import asyncio
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopSignal:
    """True once a stop was requested."""

    def __init__(self) -> None:
        self._requested = asyncio.Event()

    def __bool__(self) -> bool:
        return self._requested.is_set()

    def stop(self) -> None:
        """Request a stop."""
        self._requested.set()

    async def interrupts(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Await ``work``; cancel it and return None if a stop is requested first."""
        task = asyncio.create_task(work)
        requested = asyncio.create_task(self._requested.wait())
        try:
            await asyncio.wait((task, requested), return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Also if the caller is cancelled. A task that is done keeps its result.
            requested.cancel()
            task.cancel()
        await asyncio.wait([task])
        return None if task.cancelled() else task.result()

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Stop at the first SIGTERM or SIGINT; the second has its previous effect."""
        loop = asyncio.get_running_loop()
        previous = {number: signal.getsignal(number) for number in SIGNALS}

        def restore() -> None:
            for number, handler in previous.items():
                if loop.remove_signal_handler(number):
                    signal.signal(number, handler)

        def stop_once() -> None:
            restore()
            self.stop()

        for number in SIGNALS:
            loop.add_signal_handler(number, stop_once)
        try:
            yield
        finally:
            restore()
