"""Long loops that share the event loop with everything else.

Loops run in slices, and all loops of an event loop together get one slice per iteration of it: what
is ready waits for one slice at most, however many loops there are.

The event loop pauses after every second slice. If it were busy all the time, other threads, such as
the one that syncs, would hardly run: a thread that waits for the interpreter can demand it only if
nobody has released it for 5 ms, and the event loop releases and takes it back in each iteration.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from time import perf_counter
from typing import TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
SLICE_SECONDS = 0.002
_PAUSE_SECONDS = 0.001
_SLICES = 2
"""Slices between two pauses."""
_FREE_SECONDS = 0.00025
"""How long a loop runs before it queues for its first slice; most end within that."""


class _Slices:
    """Who waits for a slice of an event loop, first come, first served."""

    def __init__(self) -> None:
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._granted = 0

    async def wait(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        if len(self._waiters) == 1:
            self._grant_later()
        await waiter

    def _grant_later(self) -> None:
        self._granted += 1
        pause = 0 if self._granted % _SLICES else _PAUSE_SECONDS
        asyncio.get_running_loop().call_later(pause, self._grant)

    def _grant(self) -> None:
        """Wake the first waiter; the next one in the next iteration."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                break
        if self._waiters:
            self._grant_later()


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
