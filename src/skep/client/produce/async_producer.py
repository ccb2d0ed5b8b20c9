"""Pushing draft by draft, and sending many of them together.

How the order is kept: a queue has a few lanes. A partition always takes the same one, and a lane
has one request under way at a time. So several requests can be under way, and what is pushed to a
partition is stored in the order in which it was pushed.

What a failure does: a request that fails, after the client has repeated it as often as it may,
fails all its drafts. What was pushed behind them to the same partitions is not sent, because it
would overtake them: it fails with ``Unavailable``, for nothing of it was written. What is pushed
after that goes its way again, and the other partitions of the lane go theirs all the time.
"""

import asyncio
import logging
from functools import lru_cache
from types import TracebackType
from typing import Self

from skep.client.async_client import AsyncClient
from skep.client.produce.send_buffer import Accepted, Bounds, Room, SendBuffer
from skep.errors import Closed, Invalid, Unavailable
from skep.model.message import Draft, Receipt
from skep.model.name import check_id, check_name, check_transaction_id
from skep.wire.message.push import check_draft

_log = logging.getLogger("skep.producer")

LANES = 4
"""Requests that can be under way for one queue. More of them make smaller batches."""


class AsyncProducer:
    """Sends what is pushed in batches, and never more than it may hold at a time.

    Usage::

        async with AsyncProducer(client) as producer:
            for order in orders:
                await producer.push("orders", Draft.json(order, order["customer"]))

    A batch goes when it has ``max_batch`` drafts or ``max_bytes`` of payload, or when its first
    draft has waited for ``linger`` seconds. At most ``max_pending`` drafts are accepted and not
    yet stored; then ``push`` waits.
    """

    def __init__(
        self,
        client: AsyncClient,
        *,
        linger: float = 0.005,
        max_batch: int = 500,
        max_bytes: int = 1 << 20,
        max_pending: int = 10_000,
    ) -> None:
        if min(max_batch, max_bytes, max_pending) < 1 or linger < 0:
            raise Invalid("producer", "its bounds must be at least 1, and linger at least 0")
        self._client = client
        self._bounds = Bounds(linger=linger, max_batch=max_batch, max_bytes=max_bytes)
        self._room = Room(max_pending)
        self._lanes: dict[tuple[str, int], SendBuffer] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._entering: set[_Entering] = set()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def push(self, queue: str, draft: Draft) -> asyncio.Future[Receipt]:
        """Accept a draft, and give a future that has its receipt as soon as it is stored.

        It waits while there is no room. If the draft cannot be stored its future has the
        error, which is logged, too, once for all drafts that it befell.
        """
        if self._closed:
            raise Closed
        _check(queue, draft)
        number = _lane_of(queue, draft.partition)
        if not self._room.try_take():
            await self._enter(queue, draft)
        return self._lane(queue, number).accept(draft)

    async def flush(self) -> None:
        """Send what was accepted so far, and wait until all of it is stored or has failed."""
        await asyncio.gather(*(lane.flush() for lane in list(self._lanes.values())))

    async def close(self) -> None:
        """Take nothing more, and flush."""
        self._closed = True
        try:
            await self.flush()
            if self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            for task in self._tasks:
                task.cancel()

    async def _enter(self, queue: str, draft: Draft) -> None:
        """Wait for room, unless what is pushed before it to the same partition fails."""
        entering = _Entering(queue, draft.partition)
        self._entering.add(entering)
        try:
            await self._room.take()
        finally:
            self._entering.discard(entering)
        if self._closed or entering.error:
            self._room.give(1)
            raise _not_sent(draft, entering.error) if entering.error else Closed

    def _lane(self, queue: str, number: int) -> SendBuffer:
        place = queue, number
        lane = self._lanes.get(place)
        if lane is None:
            lane = self._lanes[place] = SendBuffer(queue, self._bounds)
            task = asyncio.create_task(self._work(place, lane))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return lane

    async def _work(self, place: tuple[str, int], lane: SendBuffer) -> None:
        """Send what is in a lane until it is empty; then it is forgotten."""
        batch: list[Accepted] = []
        try:
            # The first draft comes into the lane before this task has its first turn.
            while lane:
                await lane.linger()
                batch = lane.take()
                await self._send(lane, batch)
                batch = []
        except asyncio.CancelledError:
            batch += lane.take_all()
            for accepted in batch:
                accepted.future.cancel()
            self._finish(lane, len(batch))
            raise
        finally:
            del self._lanes[place]

    async def _send(self, lane: SendBuffer, batch: list[Accepted]) -> None:
        try:
            receipts = await self._client.push(lane.queue, [each.draft for each in batch])
        except Exception as error:
            self._fail(lane, batch, error)
        else:
            for accepted, receipt in zip(batch, receipts, strict=True):
                accepted.stored(receipt)
        self._finish(lane, len(batch))

    def _fail(self, lane: SendBuffer, batch: list[Accepted], error: Exception) -> None:
        for accepted in batch:
            accepted.failed(error)
        behind = lane.take_behind(batch)
        _log.error(
            "%d drafts for %r are not stored, and %d behind them were not sent: %s",
            len(batch),
            lane.queue,
            len(behind),
            error,
        )
        for accepted in behind:
            accepted.failed(_not_sent(accepted.draft, error))
        self._finish(lane, len(behind))
        failed = {accepted.draft.partition for accepted in batch}
        for entering in self._entering:
            if entering.queue == lane.queue and entering.partition in failed:
                entering.error = error

    def _finish(self, lane: SendBuffer, count: int) -> None:
        lane.finish(count)
        self._room.give(count)


class _Entering:
    """A push that waits for room."""

    def __init__(self, queue: str, partition: str) -> None:
        self.queue = queue
        self.partition = partition
        self.error: Exception | None = None


def _not_sent(draft: Draft, error: Exception) -> Unavailable:
    failed = Unavailable(
        f"it was not sent, because a push before it to {draft.partition!r} failed: {error}"
    )
    failed.__cause__ = error
    return failed


def _check(queue: str, draft: Draft) -> None:
    """Refuse now what would later fail together with all drafts of its batch."""
    check_draft("draft", draft)
    if not isinstance(queue, str) or not isinstance(draft.partition, str):
        check_name("queue", queue)
        check_name("draft.partition", draft.partition)
    if draft.transaction_id is not None:
        check_transaction_id("draft.transaction_id", draft.transaction_id)
    if draft.trace_id is not None and not check_id("draft.trace_id", draft.trace_id).int:
        raise Invalid("draft.trace_id", "must be a UUID other than nil")


@lru_cache(maxsize=10_000)
def _lane_of(queue: str, partition: str) -> int:
    """The lane that a partition takes; its name is looked at only when it is new."""
    check_name("queue", queue)
    return hash(check_name("draft.partition", partition)) % LANES
