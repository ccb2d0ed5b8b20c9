"""Reading messages: from memory where they are recent, from the store otherwise."""

from collections.abc import Iterator

from msgspec.structs import replace

from skep.core.log.encryption import KeyRing, place_of
from skep.core.state.queue_state import PartitionState
from skep.core.state.registry import Registry
from skep.core.state.segment_cache import SegmentCache
from skep.errors import EncryptionUnavailable
from skep.model.dead_letter import DeadLetter
from skep.model.message import Message
from skep.model.name import Offset, to_datetime
from skep.model.segment import DELETED, ENCRYPTED, Columns, Segment
from skep.store.protocol import LogStore


class SegmentReader:
    def __init__(
        self, store: LogStore, registry: Registry, cache: SegmentCache, keys: KeyRing
    ) -> None:
        self._store = store
        self._registry = registry
        self._cache = cache
        self._keys = keys

    async def segments(
        self, partition: PartitionState, offset: Offset, *, messages: int, size: int
    ) -> list[Segment]:
        """What is committed from ``offset`` on; nothing at or beyond the end we know of."""
        messages = min(messages, partition.end - offset)
        if messages <= 0:
            return []
        cache = self._cache
        found = cache.find(partition.number, offset, messages=messages, size=size)
        if not found:
            found = await self._store.read(partition.number, offset, messages=messages, size=size)
            if found:
                cache.remember(found[-1])
        return found

    async def message(self, partition: PartitionState, offset: Offset) -> Message | None:
        """One message; None if it was removed or is not there."""
        if not partition.start <= offset < partition.end:
            return None
        segments = await self.segments(partition, offset, messages=1, size=1)
        return next(self.messages(partition, segments, offset, offset + 1), None)

    async def holds(self, partition: PartitionState, offset: Offset) -> bool:
        """Whether the partition keeps a message at an offset that was not deleted."""
        segments = await self.segments(partition, offset, messages=1, size=1)
        if not segments or segments[0].start > offset:
            return False
        return not segments[0].flag(offset) & DELETED

    async def chosen_id(self, partition: int, offset: Offset) -> str | None:
        """The transaction id that is stored with a message, if there is one.

        Another server may have pushed it, so what is known here is not asked.
        """
        segments = await self._store.read(partition, offset, messages=1, size=1)
        held = segments and segments[0].start <= offset
        return segments[0].chosen_id(offset) if held else None

    def messages(
        self,
        partition: PartitionState,
        segments: list[Segment],
        start: Offset,
        stop: Offset,
        *,
        attempt: int = 0,
    ) -> Iterator[Message]:
        """The messages of ``[start, stop)`` that the segments hold, without deleted ones."""
        queue = partition.queue.config.name
        for segment in segments:
            low = max(start, segment.start)
            part = segment.columns.cut(low - segment.start, stop - segment.start)
            created_at = to_datetime(segment.created_at)
            for index, payload in enumerate(part.payloads):
                flags = part.flags[index] if part.flags else 0
                chosen = part.transaction_ids[index] if part.transaction_ids else None
                if flags:
                    if flags & DELETED:
                        continue
                    payload = self._decrypt(queue, partition.name, chosen, payload)
                yield Message(
                    queue=queue,
                    partition=partition.name,
                    partition_number=partition.number,
                    offset=low + index,
                    payload=payload,
                    chosen_id=chosen,
                    trace=part.trace_ids[index] if part.trace_ids else None,
                    producer=part.producers[index] if part.producers else None,
                    created_at=created_at,
                    attempt=attempt,
                )

    def decrypted(self, partition: PartitionState, columns: Columns) -> Columns:
        """The columns with decrypted payloads; unchanged if none is encrypted."""
        flags = columns.flags
        if flags is None or not any(flags):
            return columns
        ids = columns.transaction_ids or [None] * len(columns)
        queue = partition.queue.config.name
        payloads = [
            self._decrypt(queue, partition.name, chosen, payload) if flag & ENCRYPTED else payload
            for payload, chosen, flag in zip(columns.payloads, ids, flags, strict=True)
        ]
        return replace(columns, payloads=payloads, flags=None)

    def payload_of(self, letter: DeadLetter) -> bytes:
        """The decrypted payload of a dead letter."""
        partition = self._registry.find_partition(letter.partition)
        if not letter.encrypted or partition is None:
            return letter.payload
        queue = partition.queue.config.name
        return self._decrypt(queue, partition.name, letter.chosen_id, letter.payload)

    def _decrypt(self, queue: str, partition: str, chosen: str | None, payload: bytes) -> bytes:
        try:
            return self._keys.decrypt(payload, place_of(queue, partition, chosen or ""))
        except EncryptionUnavailable as error:
            raise EncryptionUnavailable(f"queue {queue!r}: {error.reason}") from None
