"""Making partitions: those that are asked for while some are being made are made together."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from skep.core.aio import KeyedLocks
from skep.core.state.queue_state import QueueState


class PartitionCreator:
    """One commit for many, as it is with messages: a partition each is what producers ask for."""

    def __init__(self, make: Callable[[QueueState, list[str]], Awaitable[None]]) -> None:
        self._make = make
        self._making = KeyedLocks[int]()
        self._gathering: dict[int, tuple[dict[str, None], asyncio.Future[None]]] = {}

    async def of(self, queue: QueueState, names: Iterable[str]) -> None:
        """Make partitions of a queue, with those that others ask for."""
        number = queue.config.number
        if number not in self._gathering:
            wanted: dict[str, None] = {}
            self._gathering[number] = wanted, asyncio.ensure_future(self._bear(queue, wanted))
        wanted, made = self._gathering[number]
        wanted.update(dict.fromkeys(names))
        await asyncio.shield(made)

    async def _bear(self, queue: QueueState, wanted: dict[str, None]) -> None:
        number = queue.config.number
        async with self._making.of(number):
            # Requests from now on are for the next flush.
            del self._gathering[number]
            await self._make(queue, list(wanted))
