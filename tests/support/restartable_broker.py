"""A store that is closed and opened again."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from skep import Broker
from skep.store.open import open_store
from skep.testing.clock import ManualClock
from tests.support.broker_builders import make_broker


class Restarts:
    """The same store and the same clock, opened again and again."""

    def __init__(self, url: str | Path, clock: ManualClock) -> None:
        self._url = url
        self._clock = clock

    @asynccontextmanager
    async def run(self) -> AsyncIterator[Broker]:
        async with make_broker(open_store(self._url, clock=self._clock)) as queue:
            yield queue
