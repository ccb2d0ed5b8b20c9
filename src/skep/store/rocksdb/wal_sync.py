"""Syncing: at once where the disk is fast, on a thread of its own where it is not.

To wake a thread, and to be woken by it, takes longer than a good disk takes for a sync: done at
once, a message reaches who waits for it in half the time. A slow disk would keep the loop from
everything else, so there the loop goes on while it works. It is a thread with a queue rather than
an executor, whose bookkeeping costs as much as a fifth of a sync.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

FAST = 0.000_5
"""Seconds that a sync usually takes where it is done at once."""
_WEIGHT = 1 / 8


class Syncer:
    """Calls ``sync`` once for each time it is asked, in their order, until it is closed."""

    def __init__(self, sync: Callable[[], None]) -> None:
        self._sync = sync
        self._usual = 2 * FAST
        self._asked: SimpleQueue[asyncio.Future[None] | None] = SimpleQueue()
        self._waiting = 0
        """Syncs of the thread that are not done: none is done beside them."""
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
        # Also if nobody waits for it any more it counts until it is done.
        await asyncio.shield(done)

    def close(self) -> None:
        """Finish what was asked for, and end."""
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
            # The loop may be gone: then nobody waits any more.
            with contextlib.suppress(RuntimeError):
                done.get_loop().call_soon_threadsafe(_resolve, done, error)


def _resolve(done: asyncio.Future[None], error: Exception | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
