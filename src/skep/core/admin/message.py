"""Looking messages up without a lease, and taking one out."""

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
        """One message by its id; ``MessageNotFound`` if it is not kept any more."""
        partition, offset = self._registry.locate(message_id)
        found = await self._segment_reader.message(partition, offset)
        if found is None:
            raise MessageNotFound(str(message_id))
        return found

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
        found = (
            await self._segment_reader.message(state, offset) if number == state.number else None
        )
        return found if found and found.chosen_id is None else None

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

        ``before`` is the ``next`` of the page before. Within a queue the order is that of
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
        """Remove one message for good. Its offset stays empty, and its transaction id is free."""
        partition, offset = self._registry.locate(message_id)
        if not await run_to_completion(self._delete(partition, offset)):
            raise MessageNotFound(str(message_id))

    async def give_up(
        self, message_id: UUID, *, group: str | None = None, error: str = ""
    ) -> Sequence[str]:
        """Dead-letter a message for one group, or for all that have not read it; return which."""
        return await self._give_up.give_up(message_id, group=group, error=error)

    async def _delete(self, partition: PartitionState, offset: Offset) -> bool:
        queue = partition.queue.config.number
        try:
            return await self._store.delete_message(queue, partition.number, offset)
        finally:
            # Whatever became of it: what was asked to be removed is not to be served from memory.
            self._cache.drop(partition.number)

    async def _list_partition(
        self, partition: PartitionState, before: str | None, limit: int
    ) -> Page:
        stop = partition.end if before is None else min(_offset(before), partition.end)
        start = max(partition.start, stop - limit)
        found: list[Message] = []
        at = start
        while at < stop:
            segments = await self._segment_reader.segments(
                partition, at, messages=stop - at, size=self._limits.pop_bytes
            )
            if not segments:
                break
            found += self._segment_reader.messages(partition, segments, at, stop)
            at = segments[-1].end
        return Page(found[::-1], str(start) if start > partition.start else None)

    async def _list_queue(self, queue: str, before: str | None, limit: int) -> Page:
        number = self._registry.queue(queue).config.number
        heads = await self._store.heads(number) if before is None else _positions(before)
        found: list[Message] = []
        while (newest := await self._newest(number, heads)) and len(found) < limit:
            count = min(heads[newest.lane] - newest.position, limit - len(found))
            heads[newest.lane] -= count
            found += self._some(newest, heads[newest.lane] - newest.position, count)
        if newest is None:
            return Page(found, None)
        return Page(found, ",".join(f"{lane}:{head}" for lane, head in sorted(heads.items())))

    async def _newest(self, queue: int, heads: dict[int, int]) -> Segment | None:
        """Of the segments that end the lanes, the one that was committed last."""
        lasts = [
            segment
            for lane, head in heads.items()
            for segment in await self._store.read_journal(
                queue, lane, head, limit=1, backwards=True
            )
        ]
        for segment in lasts:
            # Retention may have removed what lay between.
            heads[segment.lane] = min(heads[segment.lane], segment.position + len(segment.columns))
        return max(lasts, key=lambda segment: segment.created_at, default=None)

    def _some(self, segment: Segment, index: int, count: int) -> Iterator[Message]:
        """Messages of a segment, newest first; only what is committed for sure."""
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
