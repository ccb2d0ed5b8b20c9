"""Helpers for asyncio that know nothing of queues.

Long loops run in slices, and all loops of an event loop together get one slice per iteration of it:
what is ready waits for one slice at most, however many loops there are.

After each slice the event loop is free for as long as the slice took. A request takes several
iterations of the event loop, and would have to wait for a slice in each of them otherwise. Other
threads, such as the one that syncs, would hardly run if the event loop were busy all the time: a
thread that waits for the interpreter can demand it only if it was not released for 5 ms, and the
event loop releases and takes it back in each iteration.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Iterable
from random import uniform
from time import perf_counter
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

from skep.errors import Conflict, SkepError

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

TRIES = 100
_FIRST_SECONDS, _LONGEST_SECONDS = 0.001, 0.05

SLICE_SECONDS = 0.002
_LONGEST_PAUSE_SECONDS = 0.005
_FREE_SECONDS = 0.00025
"""How long a loop runs before it queues for its first slice; most end within that."""


async def run_to_completion(work: Coroutine[Any, Any, T]) -> T:
    """Finish what was begun, even if the caller is cancelled: memory must match the store."""
    return await asyncio.shield(asyncio.ensure_future(work))


class KeyedLocks(Generic[K]):
    """A lock for each key, as long as it is held or awaited."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[K, asyncio.Lock] = WeakValueDictionary()

    def of(self, key: K) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())


class Backoff:
    """Pauses between decisions on a state that other writers change at the same time.

    The first retry is immediate: the state was read again, and another writer is rare. After that,
    writers pause for random times, so that one of them gets through.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._tries = 0

    async def pause(self) -> None:
        """Wait before the next try; ``Conflict`` if there were too many."""
        self._tries += 1
        if self._tries > TRIES:
            raise Conflict(f"other clients keep changing {self._what}; try again")
        if self._tries > 1:
            longest = min(_FIRST_SECONDS * 2**self._tries, _LONGEST_SECONDS)
            await asyncio.sleep(uniform(0, longest))

    def reset(self) -> None:
        """A step was taken: what comes next starts over."""
        self._tries = 0


class PeriodicTask:
    """Runs work at an interval. Of several failures in a row only the first is logged."""

    def __init__(
        self, work: Callable[[], Awaitable[None]], complaint: str, log: logging.Logger
    ) -> None:
        self._work = work
        self._complaint = complaint
        self._log = log
        self._task: asyncio.Task[None] | None = None

    def start(self, interval: float) -> None:
        self._task = asyncio.create_task(self._run(interval))

    async def stop(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self, interval: float) -> None:
        failed = False
        while True:
            await asyncio.sleep(interval)
            try:
                await self._work()
                failed = False
            except Exception as error:
                if not failed:
                    log_failure(self._log, self._complaint, error)
                failed = True


def log_failure(log: logging.Logger, event: str, error: Exception, **fields: object) -> None:
    """Log an event and its error; with the traceback if the error is not one of ours."""
    values = "".join(f"{name}={value} " for name, value in fields.items())
    log.warning("%s: %serror=%s", event, values, error, exc_info=not isinstance(error, SkepError))


class _Slices:
    """Loops that wait for a slice of an event loop, first come, first served."""

    def __init__(self) -> None:
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._granted_at = 0.0

    async def wait(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        if len(self._waiters) == 1:
            self._grant_later()
        await waiter

    def _grant_later(self) -> None:
        taken = perf_counter() - self._granted_at
        pause = min(taken, _LONGEST_PAUSE_SECONDS)
        asyncio.get_running_loop().call_later(pause, self._grant)

    def _grant(self) -> None:
        """Wake the first waiter, and the next one after its slice and a pause."""
        self._granted_at = perf_counter()
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                break
        if self._waiters:
            asyncio.get_running_loop().call_soon(self._grant_later)


_slices: WeakKeyDictionary[asyncio.AbstractEventLoop, _Slices] = WeakKeyDictionary()


async def yielding(items: Iterable[T]) -> AsyncIterator[T]:
    """The items, which must not change meanwhile; other tasks run after every slice."""
    until = perf_counter() + _FREE_SECONDS
    for item in items:
        yield item
        if perf_counter() > until:
            await next_slice()
            until = perf_counter() + SLICE_SECONDS


async def next_slice() -> None:
    """Let other tasks run, and other loops before this one."""
    loop = asyncio.get_running_loop()
    slices = _slices.get(loop)
    if slices is None:
        slices = _slices[loop] = _Slices()
    await slices.wait()
