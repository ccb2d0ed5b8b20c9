"""Long poll: who sleeps, and who wakes."""

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import TypeAlias

from skep.model.names import Instant
from skep.store.clock import Clock

Place: TypeAlias = tuple[int, str] | tuple[int, str, int] | tuple[int, str, str] | str
"""What one can wait for: a group of a queue (by number), one of its partitions (by number, or by
name as long as it does not exist), or a queue that does not exist."""

ANY_QUEUE: Place = ""


class Waiting:
    """Consumers parked at places, woken first come, first served, one per thing to do."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._parked: dict[Place, dict[asyncio.Future[bool], None]] = {}

    async def park(self, places: Iterable[Place], until: Instant) -> None:
        """Sleep until one of the places wakes us, or until the time has come.

        Nothing is awaited between the call and being parked, so what happens after the caller
        looked cannot be missed. Who is cancelled may have been woken: it has to see to it that
        somebody else is.
        """
        woken: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        places = list(places)
        for place in places:
            self._parked.setdefault(place, {})[woken] = None
        timer = self._clock.call_at(until, partial(_expire, woken))
        try:
            await woken
        finally:
            timer.cancel()
            for place in places:
                self._leave(place, woken)

    def wake(self, place: Place) -> bool:
        """Wake who waits longest at a place; False if nobody does."""
        sleepers = self._parked.get(place)
        while sleepers:
            sleeper = next(iter(sleepers))
            del sleepers[sleeper]
            if _resolve(sleeper, True):
                return True
        return False

    def wake_all(self, place: Place) -> None:
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
        for place in list(self._parked):
            self.wake_all(place)

    def count(self) -> dict[Place, int]:
        """How many wait at each place; who waits at several counts at each of them."""
        return {place: len(sleepers) for place, sleepers in self._parked.items()}

    def __len__(self) -> int:
        return len({sleeper for sleepers in self._parked.values() for sleeper in sleepers})

    def _leave(self, place: Place, sleeper: asyncio.Future[bool]) -> None:
        sleepers = self._parked.get(place, {})
        sleepers.pop(sleeper, None)
        if not sleepers:
            self._parked.pop(place, None)


def _resolve(sleeper: asyncio.Future[bool], woken: bool) -> bool:
    if sleeper.done():
        return False
    sleeper.set_result(woken)
    return True


def _expire(sleeper: asyncio.Future[bool]) -> None:
    _resolve(sleeper, False)
