"""Long poll: who sleeps, and who wakes."""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias

from skep.model.name import Instant
from skep.store.clock import Clock

WaitKey: TypeAlias = tuple[int, str] | tuple[int, str, int] | tuple[int, str, str] | str
"""What one can wait for: a group of a queue (by number), one of its partitions (by number, or by
name as long as it does not exist), or a queue that does not exist."""

ANY_QUEUE: WaitKey = ""


def journal_of(queue: int) -> WaitKey:
    """Where those wait who read a whole queue: as a group without a name."""
    return queue, ""


class Waiter:
    """One who waits, perhaps several times; woken for something, it takes that or passes it on."""

    __slots__ = ("_pass_on", "_woken")

    def __init__(self) -> None:
        self._woken: asyncio.Future[None] | None = None
        self._pass_on: Callable[[], None] | None = None

    async def sleep(self) -> None:
        """Nothing is awaited before this can be woken."""
        self._woken = asyncio.get_running_loop().create_future()
        await self._woken

    def wake(self, pass_on: Callable[[], None] | None = None) -> bool:
        """False if it is awake already. ``pass_on`` wakes another, if there still is a reason."""
        if self._woken is None or self._woken.done():
            return False
        self._pass_on = pass_on
        self._woken.set_result(None)
        return True

    def pass_on(self) -> None:
        """Let somebody else see to what it was woken for, unless that is done."""
        if self._pass_on:
            pass_on, self._pass_on = self._pass_on, None
            pass_on()


class Waiters:
    """Consumers parked at places, woken first come, first served, one per thing to do."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._parked: dict[WaitKey, dict[Waiter, None]] = {}
        self.closed = False
        """Nobody may sleep any more."""

    async def park(self, sleeper: Waiter, places: Iterable[WaitKey], until: Instant) -> None:
        """Sleep until one of the places wakes us, or until the time has come.

        Nothing is awaited between the call and being parked, so what happens after the caller
        looked cannot be missed. Who was woken, even if it was cancelled at the same time, has
        to call ``pass_on`` when it goes.
        """
        places = list(places)
        for place in places:
            self._parked.setdefault(place, {})[sleeper] = None
        timer = self._clock.call_at(until, partial(_expire, sleeper))
        try:
            await sleeper.sleep()
        finally:
            timer.cancel()
            for place in places:
                self._leave(place, sleeper)

    def wake(self, place: WaitKey, pass_on: Callable[[], None] | None = None) -> bool:
        """Wake who waits longest at a place; False if nobody does."""
        sleepers = self._parked.get(place)
        while sleepers:
            sleeper = next(iter(sleepers))
            del sleepers[sleeper]
            if sleeper.wake(pass_on):
                return True
        return False

    def wake_all(self, place: WaitKey) -> None:
        """Wake everybody at a place, because what they look for may have changed."""
        while self.wake(place):
            pass

    def wake_group(self, queue: int, group: str) -> None:
        """Wake everybody who waits for a group, whatever partition of it."""
        for place in list(self._parked):
            if place[:2] == (queue, group):
                self.wake_all(place)

    def close(self) -> None:
        """Wake everybody, because the broker closes."""
        self.closed = True
        for place in list(self._parked):
            self.wake_all(place)

    def count(self) -> dict[WaitKey, int]:
        """How many wait at each place; who waits at several counts at each of them."""
        return {place: len(sleepers) for place, sleepers in self._parked.items()}

    def __len__(self) -> int:
        return len({sleeper for sleepers in self._parked.values() for sleeper in sleepers})

    def _leave(self, place: WaitKey, sleeper: Waiter) -> None:
        sleepers = self._parked.get(place, {})
        sleepers.pop(sleeper, None)
        if not sleepers:
            self._parked.pop(place, None)


def _expire(sleeper: Waiter) -> None:
    sleeper.wake()
