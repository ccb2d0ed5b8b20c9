"""One lane of a producer: what goes one after the other."""

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from skep.model.message import Draft, Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """When a batch is sent: when it is full, or when its first draft has waited long enough."""

    linger: float
    max_batch: int
    max_bytes: int


class Room:
    """Places for drafts. Who waits for one gets it before who comes later."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiters: deque[asyncio.Future[None]] = deque()

    def try_take(self) -> bool:
        if not self._free or self._waiters:
            return False
        self._free -= 1
        return True

    async def take(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():
                self.give(1)
            raise

    def give(self, places: int) -> None:
        self._free += places
        while self._free and self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                self._free -= 1
                waiter.set_result(None)


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """A draft in a lane, and who waits for its receipt."""

    draft: Draft
    future: asyncio.Future[Receipt]

    def stored(self, receipt: Receipt) -> None:
        if not self.future.done():
            self.future.set_result(receipt)

    def failed(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)
            # Looked at, as far as asyncio is concerned: it would log each of them with its trace.
            self.future.exception()


class SendBuffer:
    """Drafts of one queue in the order in which they were accepted."""

    def __init__(self, queue: str, bounds: Bounds) -> None:
        self.queue = queue
        self._bounds = bounds
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Accepted] = deque()
        self._bytes = 0
        self._since = 0.0
        """When the first of those that wait came."""
        self._accepted = self._finished = self._hurry_to = 0
        self._hurry = asyncio.Event()
        self._flushes: list[tuple[int, asyncio.Future[None]]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def accept(self, draft: Draft) -> asyncio.Future[Receipt]:
        future: asyncio.Future[Receipt] = self._loop.create_future()
        if not self._waiting:
            self._since = self._loop.time()
        self._accepted += 1
        self._keep(Accepted(draft, future))
        if self._is_full():
            self._hurry.set()
        return future

    async def linger(self) -> None:
        """Wait until a batch is worth sending."""
        if self._is_full() or self._finished < self._hurry_to:
            return
        self._hurry.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._since + self._bounds.linger):
                await self._hurry.wait()

    def take(self) -> list[Accepted]:
        """The next batch: as much as fits, and at least one."""
        batch = [self._next()]
        size = len(batch[0].draft.payload)
        while self._waiting and len(batch) < self._bounds.max_batch:
            size += len(self._waiting[0].draft.payload)
            if size > self._bounds.max_bytes:
                break
            batch.append(self._next())
        return batch

    def take_behind(self, batch: list[Accepted]) -> list[Accepted]:
        """What waits behind a batch in one of its partitions."""
        partitions = {each.draft.partition for each in batch}
        waiting = self.take_all()
        for each in waiting:
            if each.draft.partition not in partitions:
                self._keep(each)
        return [each for each in waiting if each.draft.partition in partitions]

    def take_all(self) -> list[Accepted]:
        rest = list(self._waiting)
        self._waiting.clear()
        self._bytes = 0
        return rest

    def finish(self, count: int) -> None:
        """So many drafts are stored or have failed."""
        self._finished += count
        for place, done in self._flushes:
            if place <= self._finished and not done.done():
                done.set_result(None)
        self._flushes = [each for each in self._flushes if not each[1].done()]

    async def flush(self) -> None:
        """Send without lingering what is here now, and wait until it is finished."""
        if self._finished >= self._accepted:
            return
        self._hurry_to = self._accepted
        self._hurry.set()
        done = self._loop.create_future()
        self._flushes.append((self._accepted, done))
        await done

    def _is_full(self) -> bool:
        bounds = self._bounds
        return len(self._waiting) >= bounds.max_batch or self._bytes >= bounds.max_bytes

    def _keep(self, accepted: Accepted) -> None:
        self._waiting.append(accepted)
        self._bytes += len(accepted.draft.payload)

    def _next(self) -> Accepted:
        accepted = self._waiting.popleft()
        self._bytes -= len(accepted.draft.payload)
        return accepted
