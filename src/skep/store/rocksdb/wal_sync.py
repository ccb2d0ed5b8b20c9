"""Syncs the write-ahead log: inline if the disk is fast, else on a thread of its own.

Waking a thread and being woken by it takes longer than a sync of a good disk: inline, a message
reaches its consumer in half the time. A slow disk would block the event loop, so there a thread
syncs. It is a thread with a queue rather than an executor, whose bookkeeping costs as much as a
fifth of a sync.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

FAST = 0.000_5
"""Average seconds of a sync up to which it runs inline."""
_WEIGHT = 1 / 8


class Syncer:
    """Runs one sync for each request, in order, until it is closed."""

    def __init__(self, sync: Callable[[], None]) -> None:
        self._sync = sync
        self._usual = 2 * FAST
        self._asked: SimpleQueue[asyncio.Future[None] | None] = SimpleQueue()
        self._waiting = 0
        """Syncs queued to the thread; while there are any, none runs inline."""
        self._thread = Thread(target=self._run, name="skep-sync", daemon=True)
        self._thread.start()

    async def sync(self) -> None:
        if self._usual < FAST and not self._waiting:
            self._measure()
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.add_done_callback(self._count_down)
        self._waiting += 1
        self._asked.put(done)
        # A cancelled caller does not cancel the sync: it counts until it is done.
        await asyncio.shield(done)

    def close(self) -> None:
        """Finish all requests, and end the thread."""
        self._asked.put(None)
        self._thread.join()

    def _count_down(self, _: asyncio.Future[None]) -> None:
        self._waiting -= 1

    def _measure(self) -> None:
        begin = time.perf_counter()
        self._sync()
        self._usual += (time.perf_counter() - begin - self._usual) * _WEIGHT

    def _run(self) -> None:
        while (done := self._asked.get()) is not None:
            error: Exception | None = None
            try:
                self._measure()
            except Exception as caught:
                error = caught
            # The loop may be closed: then no caller waits any more.
            with contextlib.suppress(RuntimeError):
                done.get_loop().call_soon_threadsafe(_resolve, done, error)


def _resolve(done: asyncio.Future[None], error: Exception | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
