"""Long polls wait on keys, and are woken one per reason."""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias

from skep.model.name import Instant
from skep.store.clock import Clock

WaitKey: TypeAlias = tuple[int, str] | tuple[int, str, int] | tuple[int, str, str] | str
"""What a request can wait for: a group of a queue (by number), one of its partitions (by number, or
by name as long as it does not exist), or a queue that does not exist."""

ANY_QUEUE: WaitKey = ""


def journal_of(queue: int) -> WaitKey:
    """What readers of a whole queue wait for: a group without a name."""
    return queue, ""


class Waiter:
    """One waiting request. Woken for a reason, it acts on it or passes it on."""

    __slots__ = ("_pass_on", "_woken")

    def __init__(self) -> None:
        self._woken: asyncio.Future[None] | None = None
        self._pass_on: Callable[[], None] | None = None

    async def sleep(self) -> None:
        """Nothing is awaited before this can be woken."""
        self._woken = asyncio.get_running_loop().create_future()
        await self._woken

    def wake(self, pass_on: Callable[[], None] | None = None) -> bool:
        """False if it is awake already. ``pass_on`` wakes another, if the reason still holds."""
        if self._woken is None or self._woken.done():
            return False
        self._pass_on = pass_on
        self._woken.set_result(None)
        return True

    def pass_on(self) -> None:
        """Wake another waiter for the same reason, unless it no longer holds."""
        if self._pass_on:
            pass_on, self._pass_on = self._pass_on, None
            pass_on()


class Waiters:
    """Requests that wait on keys, woken first come, first served, one per reason."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[WaitKey, dict[Waiter, None]] = {}
        self.closed = False
        """No request may wait any more."""

    async def wait(self, waiter: Waiter, keys: Iterable[WaitKey], until: Instant) -> None:
        """Wait until one of the keys is woken, or until the given time.

        Nothing is awaited between the call and the registration, so an event after the caller
        looked cannot be missed. A waiter that was woken, even if it was cancelled at the same
        time, must call ``pass_on`` when it is done.
        """
        keys = list(keys)
        for key in keys:
            self._waiting.setdefault(key, {})[waiter] = None
        timer = self._clock.call_at(until, partial(_expire, waiter))
        try:
            await waiter.sleep()
        finally:
            timer.cancel()
            for key in keys:
                self._leave(key, waiter)

    def wake(self, key: WaitKey, pass_on: Callable[[], None] | None = None) -> bool:
        """Wake the request that has waited longest on a key; False if there is none."""
        waiters = self._waiting.get(key)
        while waiters:
            waiter = next(iter(waiters))
            del waiters[waiter]
            if waiter.wake(pass_on):
                return True
        return False

    def wake_all(self, key: WaitKey) -> None:
        """Wake every request on a key, because what it looks for may have changed."""
        while self.wake(key):
            pass

    def wake_group(self, queue: int, group: str) -> None:
        """Wake every request that waits for a group or for one of its partitions."""
        for key in list(self._waiting):
            if key[:2] == (queue, group):
                self.wake_all(key)

    def close(self) -> None:
        """Wake every request, because the broker closes."""
        self.closed = True
        for key in list(self._waiting):
            self.wake_all(key)

    def count(self) -> dict[WaitKey, int]:
        """How many requests wait on each key; one with several keys counts for each."""
        return {key: len(waiters) for key, waiters in self._waiting.items()}

    def __len__(self) -> int:
        return len({waiter for waiters in self._waiting.values() for waiter in waiters})

    def _leave(self, key: WaitKey, waiter: Waiter) -> None:
        waiters = self._waiting.get(key, {})
        waiters.pop(waiter, None)
        if not waiters:
            self._waiting.pop(key, None)


def _expire(waiter: Waiter) -> None:
    waiter.wake()
