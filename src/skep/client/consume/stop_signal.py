"""Ending in order: a wish to stop, and what is interrupted by it."""

import asyncio
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stopping:
    def __init__(self) -> None:
        self._wish = asyncio.Event()

    def __bool__(self) -> bool:
        return self._wish.is_set()

    def stop(self) -> None:
        self._wish.set()

    async def unless(self, work: Coroutine[Any, Any, T]) -> T | None:
        """The result of some work; None if it was interrupted."""
        task = asyncio.create_task(work)
        wish = asyncio.create_task(self._wish.wait())
        try:
            await asyncio.wait((task, wish), return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Also if who waits here is cancelled; what is done already stays done.
            wish.cancel()
            task.cancel()
        await asyncio.wait([task])
        return None if task.cancelled() else task.result()

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Stop at SIGTERM and SIGINT. The second one has the effect it would have anyway."""
        loop = asyncio.get_running_loop()
        before = {number: signal.getsignal(number) for number in SIGNALS}

        def restore() -> None:
            for number, handler in before.items():
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
