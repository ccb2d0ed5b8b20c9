"""A thread that does nothing but sync.

The loop goes on while the disk works. It is a thread with a queue rather than an executor, whose
bookkeeping costs as much as a fifth of a sync.
"""

import asyncio
import contextlib
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread


class Syncer:
    """Calls ``sync`` once for each ``wait``, in their order, until it is closed."""

    def __init__(self, sync: Callable[[], None]) -> None:
        self._sync = sync
        self._asked: SimpleQueue[asyncio.Future[None] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="skep-sync", daemon=True)
        self._thread.start()

    def wait(self) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked.put(done)
        return done

    def close(self) -> None:
        """Finish what was asked for, and end."""
        self._asked.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (done := self._asked.get()) is not None:
            error: Exception | None = None
            try:
                self._sync()
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
