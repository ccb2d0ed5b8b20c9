"""Push drafts one by one; they are sent in batches.

Order: a queue has a few send buffers. A partition always uses the same buffer, and a buffer has
one request in flight at a time. So several requests can be in flight, and the drafts of a partition
are stored in the order in which they were pushed.

Failure: a request that fails after all retries of the client fails all its drafts. Drafts that were
pushed after them to the same partitions are not sent, because they would overtake them: they fail
with ``Unavailable``, because nothing of them was written. Later pushes are sent again, and other
partitions of the buffer are not affected.
"""

import asyncio
import logging
from functools import lru_cache
from types import TracebackType
from typing import Self

from skep.client.async_client import AsyncClient
from skep.client.produce.send_buffer import Accepted, Bounds, SendBuffer, Slots
from skep.errors import Closed, Invalid, Unavailable
from skep.model.message import Draft, Receipt
from skep.model.name import check_id, check_name, check_transaction_id
from skep.wire.message.push import check_draft

_log = logging.getLogger("skep.producer")

BUFFERS = 4
"""Requests that can be in flight for one queue. More buffers make smaller batches."""


class AsyncProducer:
    """Sends drafts in batches, with backpressure.

    Usage::

        async with AsyncProducer(client) as producer:
            for order in orders:
                await producer.push("orders", Draft.json(order, order["customer"]))

    A batch is sent when it has ``max_batch`` drafts or ``max_bytes`` of payload, or when its first
    draft has waited for ``linger`` seconds. While ``max_pending`` drafts are accepted and not yet
    stored, ``push`` waits.
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
            raise Invalid(
                "producer",
                "limits must be at least 1, and linger at least 0",
            )
        self._client = client
        self._bounds = Bounds(linger=linger, max_batch=max_batch, max_bytes=max_bytes)
        self._slots = Slots(max_pending)
        self._buffers: dict[tuple[str, int], SendBuffer] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._blocked: set[_BlockedPush] = set()
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
        """Accept a draft; return a future of its receipt, which is done when the draft is stored.

        Waits while ``max_pending`` drafts are not stored. If the draft cannot be stored, the future
        raises the error, which is also logged, once for all drafts of the request.
        """
        if self._closed:
            raise Closed
        _check(queue, draft)
        number = _buffer_of(queue, draft.partition)
        if not self._slots.try_acquire():
            await self._wait_for_slot(queue, draft)
        return self._buffer(queue, number).accept(draft)

    async def flush(self) -> None:
        """Send all accepted drafts, and wait until they are stored or have failed."""
        await asyncio.gather(*(buffer.flush() for buffer in list(self._buffers.values())))

    async def close(self) -> None:
        """Reject further drafts, and flush."""
        self._closed = True
        try:
            await self.flush()
            if self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            for task in self._tasks:
                task.cancel()

    async def _wait_for_slot(self, queue: str, draft: Draft) -> None:
        """Wait for a slot; raise if an earlier push to the same partition fails meanwhile."""
        push = _BlockedPush(queue, draft.partition)
        self._blocked.add(push)
        try:
            await self._slots.acquire()
        finally:
            self._blocked.discard(push)
        if self._closed or push.error:
            self._slots.release(1)
            raise _not_sent(draft, push.error) if push.error else Closed

    def _buffer(self, queue: str, number: int) -> SendBuffer:
        key = queue, number
        buffer = self._buffers.get(key)
        if buffer is None:
            buffer = self._buffers[key] = SendBuffer(queue, self._bounds)
            task = asyncio.create_task(self._drain(key, buffer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return buffer

    async def _drain(self, key: tuple[str, int], buffer: SendBuffer) -> None:
        """Send batches until the buffer is empty, and remove it."""
        batch: list[Accepted] = []
        try:
            # The first draft is accepted before this task first runs.
            while buffer:
                await buffer.linger()
                batch = buffer.take()
                await self._send(buffer, batch)
                batch = []
        except asyncio.CancelledError:
            batch += buffer.take_all()
            for accepted in batch:
                accepted.future.cancel()
            self._finish(buffer, len(batch))
            raise
        finally:
            del self._buffers[key]

    async def _send(self, buffer: SendBuffer, batch: list[Accepted]) -> None:
        drafts = [accepted.draft for accepted in batch]
        try:
            receipts = await self._client.push(buffer.queue, drafts)
        except Exception as error:
            self._fail(buffer, batch, error)
        else:
            for accepted, receipt in zip(batch, receipts, strict=True):
                accepted.stored(receipt)
        self._finish(buffer, len(batch))

    def _fail(self, buffer: SendBuffer, batch: list[Accepted], error: Exception) -> None:
        for accepted in batch:
            accepted.failed(error)
        successors = buffer.take_successors(batch)
        _log.error(
            "push failed: queue=%s failed=%d not_sent=%d error=%s",
            buffer.queue,
            len(batch),
            len(successors),
            error,
        )
        for accepted in successors:
            accepted.failed(_not_sent(accepted.draft, error))
        self._finish(buffer, len(successors))
        partitions = {accepted.draft.partition for accepted in batch}
        for push in self._blocked:
            if push.queue == buffer.queue and push.partition in partitions:
                push.error = error

    def _finish(self, buffer: SendBuffer, count: int) -> None:
        buffer.finish(count)
        self._slots.release(count)


class _BlockedPush:
    """A push that waits for a slot; ``error`` is that of an earlier push to its partition."""

    def __init__(self, queue: str, partition: str) -> None:
        self.queue = queue
        self.partition = partition
        self.error: Exception | None = None


def _not_sent(draft: Draft, error: Exception) -> Unavailable:
    failed = Unavailable(
        f"not sent, because an earlier push to partition {draft.partition!r} failed: {error}"
    )
    failed.__cause__ = error
    return failed


def _check(queue: str, draft: Draft) -> None:
    """Reject a draft here that would make its whole batch fail."""
    check_draft("draft", draft)
    if not isinstance(queue, str) or not isinstance(draft.partition, str):
        check_name("queue", queue)
        check_name("draft.partition", draft.partition)
    if draft.transaction_id is not None:
        check_transaction_id("draft.transaction_id", draft.transaction_id)
    if draft.trace_id is not None and not check_id("draft.trace_id", draft.trace_id).int:
        raise Invalid("draft.trace_id", "must be a UUID other than nil")


@lru_cache(maxsize=10_000)
def _buffer_of(queue: str, partition: str) -> int:
    """Return the number of a partition's buffer; its name is validated only the first time."""
    check_name("queue", queue)
    return hash(check_name("draft.partition", partition)) % BUFFERS
