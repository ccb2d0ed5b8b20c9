"""Deciding again when another write came first: with jitter, and not forever."""

import asyncio
from random import uniform

from skep.errors import Conflict

TRIES = 100
_FIRST_SECONDS, _LONGEST_SECONDS = 0.001, 0.05


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
