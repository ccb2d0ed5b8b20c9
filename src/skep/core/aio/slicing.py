"""Long loops that share the event loop with everything else.

Loops run in slices, and all loops of an event loop together get one slice per iteration of it: what
is ready waits for one slice at most, however many loops there are.

After each slice the event loop is free for as long as the slice took. A request takes several
iterations of the event loop, and would have to wait for a slice in each of them otherwise. Other
threads, such as the one that syncs, would hardly run if the event loop were busy all the time: a
thread that waits for the interpreter can demand it only if it was not released for 5 ms, and the
event loop releases and takes it back in each iteration.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from time import perf_counter
from typing import TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
SLICE_SECONDS = 0.002
_LONGEST_PAUSE_SECONDS = 0.005
_FREE_SECONDS = 0.00025
"""How long a loop runs before it queues for its first slice; most end within that."""


class _Slices:
    """Who waits for a slice of an event loop, first come, first served."""

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
    """The items, which must not change meanwhile; everybody else runs after every slice."""
    until = perf_counter() + _FREE_SECONDS
    for item in items:
        yield item
        if perf_counter() > until:
            await next_slice()
            until = perf_counter() + SLICE_SECONDS


async def next_slice() -> None:
    """Let everybody else run, and other loops before this one."""
    loop = asyncio.get_running_loop()
    slices = _slices.get(loop)
    if slices is None:
        slices = _slices[loop] = _Slices()
    await slices.wait()
