"""How messages, partitions and queues leave RocksDB: in steps that hold nobody up."""

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
"""Segments removed in one write: about a millisecond."""

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
        known = self._catalogue.partition(queue, partition)
        gone, rest = self._oldest(known, before) if known else ([], None)
        removal = Removal(
            queue=queue,
            partition=partition,
            kind=kind,
            messages=sum(len(segment.columns) for segment in gone),
            executed_at=self._context.clock.now(),
        )
        if known is None:
            return Truncation(0, 0, 0)
        if not gone:
            return Truncation(0, known.start, known.first_at)
        batch = WriteBatch(raw_mode=True)
        self._drop(batch, gone)
        shorter = msgspec.structs.replace(
            known, start=gone[-1].end, first_at=rest.created_at if rest else 0
        )
        put_partition(batch, shorter)
        batch.put(keys.removal_key(queue, self._context.next_number()), encode(removal))
        self._context.write(batch)
        self._catalogue.remember([shorter])
        await self._db.sync()
        return Truncation(removal.messages, shorter.start, shorter.first_at)

    async def delete_message(self, queue: int, partition: int, offset: Offset) -> bool:
        segment = self._log.segment(partition, offset)
        blanked = segment and segment.blank(offset)
        if segment is None or blanked is None or not self._catalogue.has_queue(queue):
            return False
        batch = WriteBatch(raw_mode=True)
        place = keys.segment_key(partition, segment.start)
        batch.put(place, columns.encode(blanked), self._db.segments)
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
        """The oldest segments that lie wholly before an offset, and the one that follows them."""
        # From the start on: what was removed before it would be looked through each time.
        first = keys.segment_key(partition.number, partition.start)
        gone: list[Segment] = []
        for entry in self._db.scan_segments(first, keys.after(keys.pack(partition.number))):
            segment = columns.decode(*entry)
            if segment.end > before or len(gone) == STEP:
                return gone, segment
            gone.append(segment)
        return gone, None

    def _drop(self, batch: WriteBatch, gone: list[Segment]) -> None:
        for segment in gone:
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
        # A replayed dead letter may have taken the id over: then it stays.
        found = self._db.get_many([key for _, key in chosen]) if chosen else []
        for (offset, key), value in zip(chosen, found, strict=True):
            if value is not None and keys.unpack(value) == offset:
                batch.delete(key)
