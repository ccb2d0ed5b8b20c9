"""One ordered buffer of a producer: drafts of one queue, sent one batch after the other."""

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


class Slots:
    """A fair semaphore for pending drafts: waiters get slots in the order in which they came."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiters: deque[asyncio.Future[None]] = deque()

    def try_acquire(self) -> bool:
        """Take a slot if one is free and no other caller waits; return whether it did."""
        if not self._free or self._waiters:
            return False
        self._free -= 1
        return True

    async def acquire(self) -> None:
        """Wait for a slot."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():
                self.release(1)
            raise

    def release(self, count: int) -> None:
        """Return slots, and wake waiters for them."""
        self._free += count
        while self._free and self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                self._free -= 1
                waiter.set_result(None)


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """A draft in a buffer, and the future of its receipt."""

    draft: Draft
    future: asyncio.Future[Receipt]

    def stored(self, receipt: Receipt) -> None:
        if not self.future.done():
            self.future.set_result(receipt)

    def failed(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)
            # Mark it as retrieved: otherwise asyncio logs each unretrieved one with its traceback.
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
        """When the first waiting draft was accepted."""
        self._accepted = self._finished = self._flush_to = 0
        self._flush_requested = asyncio.Event()
        self._flushes: list[tuple[int, asyncio.Future[None]]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def accept(self, draft: Draft) -> asyncio.Future[Receipt]:
        """Append a draft; return the future of its receipt."""
        future: asyncio.Future[Receipt] = self._loop.create_future()
        if not self._waiting:
            self._since = self._loop.time()
        self._accepted += 1
        self._append(Accepted(draft, future))
        if self._is_full():
            self._flush_requested.set()
        return future

    async def linger(self) -> None:
        """Wait until a batch is full, a flush is requested, or the linger time is over."""
        if self._is_full() or self._finished < self._flush_to:
            return
        self._flush_requested.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._since + self._bounds.linger):
                await self._flush_requested.wait()

    def take(self) -> list[Accepted]:
        """Remove and return the next batch: as many drafts as fit, at least one."""
        batch = [self._next()]
        size = len(batch[0].draft.payload)
        while self._waiting and len(batch) < self._bounds.max_batch:
            size += len(self._waiting[0].draft.payload)
            if size > self._bounds.max_bytes:
                break
            batch.append(self._next())
        return batch

    def take_successors(self, batch: list[Accepted]) -> list[Accepted]:
        """Remove and return the waiting drafts of the partitions of a batch."""
        partitions = {accepted.draft.partition for accepted in batch}
        waiting = self.take_all()
        for accepted in waiting:
            if accepted.draft.partition not in partitions:
                self._append(accepted)
        return [accepted for accepted in waiting if accepted.draft.partition in partitions]

    def take_all(self) -> list[Accepted]:
        """Remove and return all waiting drafts."""
        waiting = list(self._waiting)
        self._waiting.clear()
        self._bytes = 0
        return waiting

    def finish(self, count: int) -> None:
        """Note that ``count`` drafts are stored or have failed; end the flushes they complete."""
        self._finished += count
        for accepted, done in self._flushes:
            if accepted <= self._finished and not done.done():
                done.set_result(None)
        self._flushes = [flush for flush in self._flushes if not flush[1].done()]

    async def flush(self) -> None:
        """Send the waiting drafts now, and wait until they are stored or have failed."""
        if self._finished >= self._accepted:
            return
        self._flush_to = self._accepted
        self._flush_requested.set()
        done = self._loop.create_future()
        self._flushes.append((self._accepted, done))
        await done

    def _is_full(self) -> bool:
        bounds = self._bounds
        return len(self._waiting) >= bounds.max_batch or self._bytes >= bounds.max_bytes

    def _append(self, accepted: Accepted) -> None:
        self._waiting.append(accepted)
        self._bytes += len(accepted.draft.payload)

    def _next(self) -> Accepted:
        accepted = self._waiting.popleft()
        self._bytes -= len(accepted.draft.payload)
        return accepted
