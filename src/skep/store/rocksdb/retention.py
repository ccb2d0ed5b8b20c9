"""How messages, partitions and queues leave RocksDB: in steps that hold nobody up."""

from itertools import islice, takewhile

import msgspec
from rocksdict import WriteBatch

from skep.model.name import Instant, Offset
from skep.model.queue import Partition, Removal
from skep.model.segment import Segment
from skep.store.protocol import Truncation
from skep.store.rocksdb import keys, segment_codec as columns
from skep.store.rocksdb.log import LogRows
from skep.store.rocksdb.purge import purge, purge_group
from skep.store.rocksdb.record_codec import Decoder, encode
from skep.store.rocksdb.trace import TraceRows

STEP = 100
"""Segments removed in one write: about a millisecond."""

_removal = Decoder(Removal)


class RemovingRows(LogRows, TraceRows):
    async def truncate(
        self, queue: int, partition: int, before: Offset, *, kind: str
    ) -> Truncation:
        known = self.partition(queue, partition)
        gone, rest = self._oldest(known, before) if known else ([], None)
        removal = Removal(
            queue=queue,
            partition=partition,
            kind=kind,
            messages=sum(len(segment.columns) for segment in gone),
            executed_at=self.clock.now(),
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
        self._put_partition(batch, shorter)
        batch.put(keys.removal_key(queue, self.next_number()), encode(removal))
        self._write(batch)
        self._remember([shorter])
        await self._db.sync()
        return Truncation(removal.messages, shorter.start, shorter.first_at)

    async def delete_message(self, queue: int, partition: int, offset: Offset) -> bool:
        segment = self.segment(partition, offset)
        blanked = segment and segment.blank(offset)
        if segment is None or blanked is None or queue not in self._queues:
            return False
        batch = WriteBatch(raw_mode=True)
        place = keys.segment_key(partition, segment.start)
        batch.put(place, columns.encode(blanked), self._db.segments)
        index = offset - segment.start
        self._delete_indexes(batch, segment, index, index + 1)
        self._delete_traces(batch, partition, offset, offset + 1)
        self._write(batch)
        await self._db.sync()
        return True

    async def removals(self, queue: int, *, limit: int) -> list[Removal]:
        if queue not in self._queues:
            return []
        prefix = b"r" + keys.pack(queue)
        entries = self._db.scan(prefix, keys.after(prefix), backwards=True)
        return [_removal(value) for _, value in islice(entries, limit)]

    async def record_removal(self, removal: Removal) -> None:
        if removal.queue not in self._queues:
            return
        batch = WriteBatch(raw_mode=True)
        batch.put(keys.removal_key(removal.queue, self.next_number()), encode(removal))
        self._write(batch)
        await self._db.sync()

    async def forget_removals(self, queue: int, before: Instant, *, limit: int) -> int:
        prefix = b"r" + keys.pack(queue)
        first = islice(self._db.scan(prefix, keys.after(prefix)), limit)
        old = list(takewhile(lambda line: _removal(line[1]).executed_at < before, first))
        if old:
            batch = WriteBatch(raw_mode=True)
            for key, _ in old:
                batch.delete(key)
            self._write(batch)
            await self._db.sync()
        return len(old)

    async def delete_queue(self, queue: int) -> bool:
        if queue not in self._queues:
            return False
        batch = WriteBatch(raw_mode=True)
        batch.delete(keys.queue_key(queue))
        batch.put(keys.removed_queue_key(queue), b"")
        self._write(batch)
        del self._queues[queue], self._groups[queue]
        self._removing[queue] = {}
        for listed in [each for each in self._removing_groups if each[0] == queue]:
            del self._removing_groups[listed]
        await self._db.sync()
        return True

    async def purge(self) -> bool:
        """Not synced: what a crash undoes of it is still listed, and is done again."""
        self._db.check()
        queue = next(iter(self._removing), None)
        if queue is None:
            return self._purge_group()
        batch = WriteBatch(raw_mode=True)
        progress = dict(self._removing[queue])
        done = purge(self._db, batch, queue, progress)
        # If it is refused, the next step begins where this one began.
        self._write(batch)
        if done:
            del self._removing[queue]
        else:
            self._removing[queue] = progress
        return True

    def _purge_group(self) -> bool:
        listed, start = next(iter(self._removing_groups.items()), (None, b""))
        if listed is None:
            return False
        batch = WriteBatch(raw_mode=True)
        rest = purge_group(self._db, batch, *listed, start)
        self._write(batch)
        if rest is None:
            del self._removing_groups[listed]
        else:
            self._removing_groups[listed] = rest
        return True

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
            self._delete_traces(batch, segment.partition, segment.start, segment.end)

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
