"""Segments and the journal in RocksDB."""

from collections.abc import Sequence
from itertools import islice, starmap

from rocksdict import WriteBatch

from skep.errors import Corrupted
from skep.model.journal import SegmentPlace, place_of
from skep.model.name import Instant, Offset
from skep.model.segment import Segment, until_enough
from skep.store.commit.evaluation import CommitRound
from skep.store.rocksdb import keys, segment_codec as columns
from skep.store.rocksdb.catalogue import RocksCatalogueTable
from skep.store.rocksdb.context import RocksContext
from skep.store.single_server import LANE


class RocksLogTable:
    def __init__(self, context: RocksContext, catalogue: RocksCatalogueTable) -> None:
        self._db = context.db
        self._catalogue = catalogue

    async def read(
        self, partition: int, offset: Offset, *, messages: int, size: int
    ) -> list[Segment]:
        first, end = keys.pack(partition), keys.after(keys.pack(partition))
        here = keys.segment_key(partition, offset)
        holding = next(self._db.scan_segments(first, here + b"\x00", backwards=True), (here, b""))
        segments = starmap(columns.decode, self._db.scan_segments(holding[0], end))
        kept = (segment for segment in segments if segment.end > offset)
        return until_enough(kept, offset, messages=messages, size=size)

    async def find_offset(self, partition: int, transaction_id: str) -> Offset | None:
        return self.find_offsets(partition, [transaction_id])[0]

    async def offset_at(self, partition: int, moment: Instant) -> Offset:
        whole = keys.pack(partition), keys.after(keys.pack(partition))
        first = next(self._db.scan_segments(*whole), None)
        last = next(self._db.scan_segments(*whole, backwards=True), None)
        if first is None or last is None:
            return self._catalogue.end_of(partition)
        low, high = columns.decode(*first).start, columns.decode(*last).end
        while low < high:
            segment = self.segment(partition, (low + high) // 2)
            if segment is None:
                raise Corrupted(f"partition {partition} has a hole; restore a backup")
            if segment.created_at < moment:
                low = segment.end
            else:
                high = segment.start
        return low

    async def heads(self, queue: int) -> dict[int, int]:
        return self._heads(queue) if self._catalogue.has_queue(queue) else {}

    def _heads(self, queue: int) -> dict[int, int]:
        prefix = b"h" + keys.pack(queue)
        return {
            keys.last_number(key): keys.unpack(value)
            for key, value in self._db.scan(prefix, keys.after(prefix))
        }

    async def read_journal(
        self, queue: int, lane: int, position: int, *, limit: int, backwards: bool = False
    ) -> list[Segment]:
        if not self._catalogue.has_queue(queue):
            return []
        first, end = keys.journal_key(queue, lane, 0), keys.journal_key(queue, lane + 1, 0)
        at = keys.journal_key(queue, lane, position)
        if backwards:
            entries = self._db.scan(first, at, backwards=True)
        else:
            holding = next(self._db.scan(first, at + b"\x00", backwards=True), (at, b""))
            entries = self._db.scan(holding[0], end)
        places = [place for _, place in islice(entries, limit + (not backwards))]
        segments = self._segments_at(places)
        if not backwards and segments and _end(segments[0]) <= position:
            # Only the first may end before the position.
            return segments[1:]
        return segments[:limit]

    async def read_places(
        self, queue: int, lane: int, position: int, *, limit: int
    ) -> list[SegmentPlace]:
        segments = await self.read_journal(queue, lane, position, limit=limit)
        return [place_of(each, self.segment(each.partition, each.start - 1)) for each in segments]

    def find_offsets(self, partition: int, ids: Sequence[str]) -> list[Offset | None]:
        values = self._db.get_many(keys.transaction_keys(partition, ids))
        return [None if value is None else keys.unpack(value) for value in values]

    def segment(self, partition: int, offset: Offset) -> Segment | None:
        lower, upper = keys.pack(partition), keys.segment_key(partition, offset + 1)
        entry = next(self._db.scan_segments(lower, upper, backwards=True), None)
        if entry is None:
            return None
        segment = columns.decode(*entry)
        return segment if offset < segment.end else None

    def head(self, queue: int) -> int:
        return keys.unpack(self._db.get(keys.head_key(queue, LANE)) or bytes(8))

    def pushed(self, queue: int) -> int:
        return sum(self._heads(queue).values())

    def put_appends(
        self, batch: WriteBatch, round_: CommitRound, segments: Sequence[Segment]
    ) -> None:
        for segment in segments:
            self.put_segment(batch, segment)
        for queue, position in round_.heads.items():
            batch.put(keys.head_key(queue, LANE), keys.pack(position))
        for partition, ids in round_.transactions.items():
            offsets = zip(keys.transaction_keys(partition, ids), ids.values(), strict=True)
            for key, offset in offsets:
                batch.put(key, keys.pack(offset))

    def put_segment(self, batch: WriteBatch, segment: Segment) -> None:
        partition, start = segment.partition, segment.start
        batch.put(keys.segment_key(partition, start), columns.encode(segment), self._db.segments)
        batch.put(
            keys.journal_key(segment.queue, segment.lane, segment.position),
            keys.pack_pair(partition, start),
        )
        for index, trace in enumerate(segment.columns.trace_ids or ()):
            if trace is not None:
                batch.put(keys.trace_id_key(trace, partition, start + index), b"")

    def _segments_at(self, places: Sequence[bytes]) -> list[Segment]:
        """The segments with these keys, which entries of the journal name."""
        segments: list[Segment] = []
        for key, value in zip(places, self._db.get_segments(places), strict=True):
            if value is None:
                partition, start = keys.unpack_pair(key)
                raise Corrupted(f"the journal names a segment that is missing: {partition}/{start}")
            segments.append(columns.decode(key, value))
        return segments


def _end(segment: Segment) -> int:
    """The position after a segment in the journal."""
    return segment.position + len(segment.columns)
