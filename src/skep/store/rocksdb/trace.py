"""Trace events, their names, and the messages of a trace id, in RocksDB."""

from collections.abc import Iterable, Iterator
from itertools import groupby, islice

from rocksdict import WriteBatch

from skep.model.name import Offset
from skep.model.trace import TraceEvent, TraceName
from skep.store.rocksdb import keys, segment_codec as columns
from skep.store.rocksdb.context import RocksContext
from skep.store.rocksdb.record_codec import Decoder, encode

_event = Decoder(TraceEvent)


class RocksTraceTable:
    def __init__(self, context: RocksContext) -> None:
        self._db = context.db
        self._purging = context.purging_queues

    async def find_trace(self, trace_id: bytes, *, limit: int) -> list[tuple[int, Offset]]:
        prefix = b"i" + trace_id
        entries = self._db.scan(prefix, keys.after(prefix))
        places = (keys.unpack_pair(key[-16:]) for key, _ in entries)
        return list(islice((at for at in places if not self._is_removed(*at)), limit))

    async def trace_events(self, partition: int, offset: Offset) -> list[TraceEvent]:
        return list(self._events(partition, offset, offset + 1))

    async def named_events(
        self, name: str, *, before: int | None = None, limit: int
    ) -> list[TraceEvent]:
        prefix = b"a" + name.encode() + b"\x00"
        upper = keys.after(prefix) if before is None else prefix + keys.pack(before)
        entries = islice(self._named(prefix, upper, backwards=True), limit)
        values = (
            self._db.get(keys.event_key(*keys.unpack_pair(value), keys.last_number(key)))
            for key, value in entries
        )
        return [_event(value) for value in values if value is not None]

    async def trace_names(self, *, after: str = "", limit: int) -> list[TraceName]:
        lower = b"a" + after.encode() + b"\x01" if after else b"a"
        by_name = groupby(self._named(lower, b"b"), key=lambda entry: entry[0][1:-9])
        return [
            self._summary(name.decode(), list(entries)) for name, entries in islice(by_name, limit)
        ]

    def _named(
        self, lower: bytes, upper: bytes, *, backwards: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        entries = self._db.scan(lower, upper, backwards=backwards)
        return (entry for entry in entries if not self._is_removed(*keys.unpack_pair(entry[1])))

    def _is_removed(self, partition: int, offset: Offset) -> bool:
        """Whether a message belongs to a deleted queue; its segment is purged first."""
        if not self._purging:
            return False
        lower, upper = keys.pack(partition), keys.segment_key(partition, offset + 1)
        entry = next(self._db.scan_segments(lower, upper, backwards=True), None)
        return entry is None or columns.queue_of(entry[1]) in self._purging

    def _summary(self, name: str, entries: list[tuple[bytes, bytes]]) -> TraceName:
        key, value = entries[-1]
        newest = self._db.get(keys.event_key(*keys.unpack_pair(value), keys.last_number(key)))
        return TraceName(
            name=name,
            events=len(entries),
            messages=len({value for _, value in entries}),
            last_seen_at=_event(newest).created_at if newest else 0,
        )

    def _events(self, partition: int, start: Offset, stop: Offset) -> Iterator[TraceEvent]:
        lower, upper = keys.event_key(partition, start, 0), keys.event_key(partition, stop, 0)
        return (_event(value) for _, value in self._db.scan(lower, upper))

    def put_events(self, batch: WriteBatch, events: Iterable[TraceEvent]) -> None:
        for event in events:
            batch.put(keys.event_key(event.partition, event.offset, event.number), encode(event))
            for name in event.names:
                batch.put(
                    keys.event_name_key(name, event.number),
                    keys.pack_pair(event.partition, event.offset),
                )

    def delete_events(self, batch: WriteBatch, partition: int, start: Offset, stop: Offset) -> None:
        for event in self._events(partition, start, stop):
            batch.delete(keys.event_key(partition, event.offset, event.number))
            for name in event.names:
                batch.delete(keys.event_name_key(name, event.number))
