"""Truncates partitions and redacts messages in RocksDB, in short steps."""

from itertools import islice, takewhile

import msgspec
from rocksdict import WriteBatch

from skep.model.name import Instant, Offset
from skep.model.queue import Partition, Removal
from skep.model.segment import Segment
from skep.store.protocol import Truncation
from skep.store.rocksdb import keys, segment_codec as columns
from skep.store.rocksdb.catalogue import RocksCatalogueTable, put_partition
from skep.store.rocksdb.context import RocksContext
from skep.store.rocksdb.log import RocksLogTable
from skep.store.rocksdb.record_codec import Decoder, encode
from skep.store.rocksdb.trace import RocksTraceTable

STEP = 100
"""Segments deleted in one write: about a millisecond."""

_removal = Decoder(Removal)


class RocksRetentionTable:
    def __init__(
        self,
        context: RocksContext,
        catalogue: RocksCatalogueTable,
        log: RocksLogTable,
        traces: RocksTraceTable,
    ) -> None:
        self._context = context
        self._db = context.db
        self._catalogue = catalogue
        self._log = log
        self._traces = traces

    async def truncate(
        self, queue: int, partition: int, before: Offset, *, kind: str
    ) -> Truncation:
        stored = self._catalogue.partition(queue, partition)
        removed, rest = self._oldest(stored, before) if stored else ([], None)
        removal = Removal(
            queue=queue,
            partition=partition,
            kind=kind,
            messages=sum(len(segment.columns) for segment in removed),
            executed_at=self._context.clock.now(),
        )
        if stored is None:
            return Truncation(0, 0, 0)
        if not removed:
            return Truncation(0, stored.start, stored.first_at)
        batch = WriteBatch(raw_mode=True)
        self._drop(batch, removed)
        shorter = msgspec.structs.replace(
            stored, start=removed[-1].end, first_at=rest.created_at if rest else 0
        )
        put_partition(batch, shorter)
        batch.put(keys.removal_key(queue, self._context.next_number()), encode(removal))
        self._context.write(batch)
        self._catalogue.remember([shorter])
        await self._db.sync()
        return Truncation(removal.messages, shorter.start, shorter.first_at)

    async def delete_message(self, queue: int, partition: int, offset: Offset) -> bool:
        segment = self._log.segment(partition, offset)
        redacted = segment and segment.blank(offset)
        if segment is None or redacted is None or not self._catalogue.has_queue(queue):
            return False
        batch = WriteBatch(raw_mode=True)
        place = keys.segment_key(partition, segment.start)
        batch.put(place, columns.encode(redacted), self._db.segments)
        index = offset - segment.start
        self._delete_indexes(batch, segment, index, index + 1)
        self._traces.delete_events(batch, partition, offset, offset + 1)
        self._context.write(batch)
        await self._db.sync()
        return True

    async def removals(self, queue: int, *, limit: int) -> list[Removal]:
        if not self._catalogue.has_queue(queue):
            return []
        prefix = b"r" + keys.pack(queue)
        entries = self._db.scan(prefix, keys.after(prefix), backwards=True)
        return [_removal(value) for _, value in islice(entries, limit)]

    async def record_removal(self, removal: Removal) -> None:
        if not self._catalogue.has_queue(removal.queue):
            return
        batch = WriteBatch(raw_mode=True)
        batch.put(keys.removal_key(removal.queue, self._context.next_number()), encode(removal))
        self._context.write(batch)
        await self._db.sync()

    async def forget_removals(self, queue: int, before: Instant, *, limit: int) -> int:
        prefix = b"r" + keys.pack(queue)
        first = islice(self._db.scan(prefix, keys.after(prefix)), limit)
        old = list(takewhile(lambda line: _removal(line[1]).executed_at < before, first))
        if old:
            batch = WriteBatch(raw_mode=True)
            for key, _ in old:
                batch.delete(key)
            self._context.write(batch)
            await self._db.sync()
        return len(old)

    def _oldest(self, partition: Partition, before: Offset) -> tuple[list[Segment], Segment | None]:
        """Up to ``STEP`` oldest segments that end at ``before`` or earlier, and the next one."""
        # From the start on, to skip the tombstones of what was truncated before.
        first = keys.segment_key(partition.number, partition.start)
        oldest: list[Segment] = []
        for entry in self._db.scan_segments(first, keys.after(keys.pack(partition.number))):
            segment = columns.decode(*entry)
            if segment.end > before or len(oldest) == STEP:
                return oldest, segment
            oldest.append(segment)
        return oldest, None

    def _drop(self, batch: WriteBatch, segments: list[Segment]) -> None:
        for segment in segments:
            batch.delete(keys.segment_key(segment.partition, segment.start), self._db.segments)
            batch.delete(keys.journal_key(segment.queue, segment.lane, segment.position))
            self._delete_indexes(batch, segment, 0, len(segment.columns))
            self._traces.delete_events(batch, segment.partition, segment.start, segment.end)

    def _delete_indexes(self, batch: WriteBatch, segment: Segment, start: int, stop: int) -> None:
        part = segment.columns.cut(start, stop)
        first = segment.start + start
        for index, trace in enumerate(part.trace_ids or ()):
            if trace is not None:
                batch.delete(keys.trace_id_key(trace, segment.partition, first + index))
        chosen = [
            (first + index, keys.transaction_key(segment.partition, text))
            for index, text in enumerate(part.transaction_ids or ())
            if text is not None
        ]
        # The id may belong to a replayed dead letter by now: then it stays.
        offsets = self._db.get_many([key for _, key in chosen]) if chosen else []
        for (offset, key), value in zip(chosen, offsets, strict=True):
            if value is not None and keys.unpack(value) == offset:
                batch.delete(key)
