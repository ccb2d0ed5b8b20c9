"""Messages without a lease: find, list, delete and dead-letter them."""

import re
from collections.abc import Iterator, Sequence
from uuid import UUID

from skep.core.admin.give_up import ManualGiveUp
from skep.core.aio import run_to_completion
from skep.core.cluster.peer_sync import PeerSync, current
from skep.core.limits import Limits
from skep.core.log.segment_reader import SegmentReader
from skep.core.state.queue_state import PartitionState
from skep.core.state.registry import Registry
from skep.core.state.segment_cache import SegmentCache
from skep.errors import Invalid, MessageNotFound
from skep.model.address import address_of
from skep.model.message import Message, Page
from skep.model.name import Offset, check_text, check_transaction_id
from skep.model.segment import Segment
from skep.store.protocol import Store


class Messages:
    def __init__(
        self,
        store: Store,
        registry: Registry,
        cache: SegmentCache,
        peer_sync: PeerSync,
        segment_reader: SegmentReader,
        give_up: ManualGiveUp,
        limits: Limits,
    ) -> None:
        self._peer_sync = peer_sync
        self._store = store
        self._registry = registry
        self._cache = cache
        self._segment_reader = segment_reader
        self._give_up = give_up
        self._limits = limits

    @current
    async def get(self, message_id: UUID) -> Message:
        """One message by its id; raises ``MessageNotFound`` if it was deleted."""
        partition, offset = self._registry.locate(message_id)
        message = await self._segment_reader.message(partition, offset)
        if message is None:
            raise MessageNotFound(str(message_id))
        return message

    @current
    async def find(self, queue: str, partition: str, transaction_id: str) -> Message | None:
        """The message with this transaction id, chosen by its producer or derived."""
        state = self._registry.partition(queue, partition)
        check_transaction_id("transaction_id", transaction_id)
        offset = await self._store.find_offset(state.number, transaction_id)
        if offset is not None:
            return await self._segment_reader.message(state, offset)
        try:
            number, offset = address_of(UUID(transaction_id))
        except (ValueError, Invalid):
            return None
        if number != state.number:
            return None
        message = await self._segment_reader.message(state, offset)
        return message if message and message.chosen_id is None else None

    @current
    async def list(
        self,
        queue: str,
        *,
        partition: str | None = None,
        before: str | None = None,
        limit: int | None = None,
    ) -> Page:
        """Messages of a queue or of one partition, newest first, a page at a time.

        ``before`` is the ``next`` of the previous page. Within a queue the order is that of
        the commits, within a partition that of the offsets.
        """
        limit = self._limits.check_page(limit)
        if partition is not None:
            return await self._list_partition(
                self._registry.partition(queue, partition), before, limit
            )
        return await self._list_queue(queue, before, limit)

    @current
    async def delete(self, message_id: UUID) -> None:
        """Delete one message. Its offset stays empty, and its transaction id can be used again."""
        partition, offset = self._registry.locate(message_id)
        if not await run_to_completion(self._delete(partition, offset)):
            raise MessageNotFound(str(message_id))

    async def give_up(
        self, message_id: UUID, *, group: str | None = None, error: str = ""
    ) -> Sequence[str]:
        """Dead-letter a message for one group, or all that have not completed it; return which."""
        return await self._give_up.give_up(message_id, group=group, error=error)

    async def _delete(self, partition: PartitionState, offset: Offset) -> bool:
        queue = partition.queue.config.number
        try:
            return await self._store.delete_message(queue, partition.number, offset)
        finally:
            # Also after a failure: a message to be deleted must not be served from memory.
            self._cache.drop(partition.number)

    async def _list_partition(
        self, partition: PartitionState, before: str | None, limit: int
    ) -> Page:
        stop = partition.end if before is None else min(_offset(before), partition.end)
        start = max(partition.start, stop - limit)
        messages: list[Message] = []
        at = start
        while at < stop:
            segments = await self._segment_reader.segments(
                partition, at, messages=stop - at, size=self._limits.pop_bytes
            )
            if not segments:
                break
            messages += self._segment_reader.messages(partition, segments, at, stop)
            at = segments[-1].end
        return Page(messages[::-1], str(start) if start > partition.start else None)

    async def _list_queue(self, queue: str, before: str | None, limit: int) -> Page:
        number = self._registry.queue(queue).config.number
        heads = await self._store.heads(number) if before is None else _positions(before)
        messages: list[Message] = []
        while (newest := await self._newest(number, heads)) and len(messages) < limit:
            count = min(heads[newest.lane] - newest.position, limit - len(messages))
            heads[newest.lane] -= count
            messages += self._messages(newest, heads[newest.lane] - newest.position, count)
        if newest is None:
            return Page(messages, None)
        return Page(messages, ",".join(f"{lane}:{head}" for lane, head in sorted(heads.items())))

    async def _newest(self, queue: int, heads: dict[int, int]) -> Segment | None:
        """The last committed of the segments before ``heads``, which are moved to their ends."""
        lasts = [
            segment
            for lane, head in heads.items()
            for segment in await self._store.read_journal(
                queue, lane, head, limit=1, backwards=True
            )
        ]
        for segment in lasts:
            # Retention may have deleted what was between.
            heads[segment.lane] = min(heads[segment.lane], segment.position + len(segment.columns))
        return max(lasts, key=lambda segment: segment.created_at, default=None)

    def _messages(self, segment: Segment, index: int, count: int) -> Iterator[Message]:
        """Messages of a segment, newest first, as far as they are known to be committed."""
        partition = self._registry.find_partition(segment.partition)
        if partition is None:
            return iter(())
        start = segment.start + index
        stop = min(start + count, partition.end)
        return reversed(list(self._segment_reader.messages(partition, [segment], start, stop)))


def _offset(before: str) -> Offset:
    if not re.fullmatch(r"[0-9]{1,20}", check_text("before", before)):
        raise Invalid("before", f"{before[:64]!r} is not the next of a page")
    return int(before)


def _positions(before: str) -> dict[int, int]:
    if not re.fullmatch(
        r"[0-9]{1,9}:[0-9]{1,19}(,[0-9]{1,9}:[0-9]{1,19})*", check_text("before", before)
    ):
        raise Invalid("before", f"{before[:64]!r} is not the next of a page")
    pairs = (part.split(":") for part in before.split(","))
    return {int(lane): int(head) for lane, head in pairs}
