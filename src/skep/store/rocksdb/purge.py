"""Deletes the rows of deleted queues and groups, a bounded number at a time.

Rows are deleted one by one. Every range tombstone makes every read slower, so that one per
partition would take quadratic time. Only large ranges of a whole queue are deleted as a range.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from rocksdict import WriteBatch

from skep.errors import Corrupted
from skep.model.trace import TraceEvent
from skep.store.rocksdb import keys, segment_codec as columns
from skep.store.rocksdb.context import RocksContext
from skep.store.rocksdb.database import Database, Entries
from skep.store.rocksdb.record_codec import Decoder

ROWS = 500
"""Rows deleted, and partitions visited, in one step: a few milliseconds."""
BYTES = 1 << 20
"""Bytes of segments read in one step, unless the first segment is larger."""

_SEGMENTS = b""
_OF_PARTITIONS = (_SEGMENTS, b"t", b"u", b"e")
"""Rows with the number of their partition in the key. Segments first: without its segment a
message gets no trace event and becomes no dead letter, so no rows are added meanwhile."""
_OF_QUEUES = (b"n", b"g", b"y", b"c", b"h", b"j", b"d", b"r")

_event = Decoder(TraceEvent)


class RocksPurger:
    """Deletes the rows of deleted queues, then the states of deleted groups, in bounded steps."""

    def __init__(self, context: RocksContext) -> None:
        self._context = context

    async def purge(self) -> bool:
        """Not synced: a step that a crash undoes is still listed, and is repeated."""
        self._context.db.check()
        return self._purge_queue() or self._purge_group()

    def _purge_queue(self) -> bool:
        purging = self._context.purging_queues
        queue = next(iter(purging), None)
        if queue is None:
            return False
        batch = WriteBatch(raw_mode=True)
        progress = dict(purging[queue])
        is_done = purge(self._context.db, batch, queue, progress)
        # If the write is rejected, the next step starts where this one did.
        self._context.write(batch)
        if is_done:
            del purging[queue]
        else:
            purging[queue] = progress
        return True

    def _purge_group(self) -> bool:
        purging = self._context.purging_groups
        group, start = next(iter(purging.items()), (None, b""))
        if group is None:
            return False
        batch = WriteBatch(raw_mode=True)
        next_key = purge_group(self._context.db, batch, *group, start)
        self._context.write(batch)
        if next_key is None:
            del purging[group]
        else:
            purging[group] = next_key
        return True


class _Row(NamedTuple):
    partition: int
    key: bytes
    value: bytes


def purge(database: Database, batch: WriteBatch, queue: int, progress: dict[bytes, bytes]) -> bool:
    """Add deletions of some rows of a deleted queue to a batch; True if no rows are left.

    ``progress`` has the next key by kind of row, and is updated. Starting from the first key
    instead would scan the tombstones of all earlier steps.
    """
    return _Step(database, batch, progress).run(queue)


def purge_group(
    database: Database, batch: WriteBatch, queue: int, group: str, start: bytes
) -> bytes | None:
    """Add deletions of some states of a listed group to a batch, from the key ``start`` on.

    Returns the next key; None if no states are left.
    """
    prefix = b"c" + keys.pack(queue)
    rest = database.scan(max(start, prefix), keys.after(prefix))
    state_keys = [key for key, _ in islice(rest, ROWS + 1)]
    for key in state_keys[:ROWS]:
        if keys.consumer_place(key)[1] == group:
            batch.delete(key)
    if len(state_keys) > ROWS:
        return state_keys[ROWS]
    batch.delete(keys.listed_group_key(queue, group))
    return None


class _Step:
    def __init__(self, database: Database, batch: WriteBatch, progress: dict[bytes, bytes]) -> None:
        self._db = database
        self._batch = batch
        self._progress = progress
        self._rows = ROWS
        self._bytes = BYTES

    def run(self, queue: int) -> bool:
        prefix = b"p" + keys.pack(queue)
        rest = self._db.scan(self._progress.get(b"p", prefix), keys.after(prefix))
        partition_keys = [key for key, _ in islice(rest, ROWS)]
        if not partition_keys:
            self._purge_queue(queue)
            return True
        partitions = [keys.last_number(key) for key in partition_keys]
        if all(self._purge_kind(kind, partitions) for kind in _OF_PARTITIONS):
            for key in partition_keys:
                self._batch.delete(key)
            self._progress.clear()
            self._progress[b"p"] = partition_keys[-1]
        return False

    def _purge_kind(self, kind: bytes, partitions: Sequence[int]) -> bool:
        """Delete rows of one kind; False if some are left."""
        scan = self._db.scan if kind else self._db.scan_segments
        for row in _rows_of(scan, kind, partitions, self._progress.get(kind, b"")):
            if self._rows <= 0 or self._bytes <= 0:
                self._progress[kind] = row.key
                return False
            self._delete(kind, row)
        self._progress[kind] = keys.after(kind + keys.pack(partitions[-1]))
        return True

    def _delete(self, kind: bytes, row: _Row) -> None:
        self._rows -= 1
        if kind == _SEGMENTS:
            self._bytes -= len(row.value)
            self._batch.delete(row.key, self._db.segments)
            self._delete_trace_ids(row)
            return
        self._batch.delete(row.key)
        if kind == b"e":
            self._delete_names(row)

    def _delete_names(self, row: _Row) -> None:
        with suppress(Corrupted):  # the names of a damaged event stay; they lead to nothing
            event = _event(row.value)
            for name in event.names:
                self._batch.delete(keys.event_name_key(name, event.number))

    def _delete_trace_ids(self, row: _Row) -> None:
        if not columns.has_trace_ids(row.value):
            return
        with suppress(Corrupted):  # the same for a damaged segment
            segment = columns.decode(row.key, row.value)
            for index, trace in enumerate(segment.columns.trace_ids or ()):
                if trace is not None:
                    self._rows -= 1
                    at = segment.start + index
                    self._batch.delete(keys.trace_id_key(trace, row.partition, at))

    def _purge_queue(self, queue: int) -> None:
        for kind in _OF_QUEUES:
            prefix = kind + keys.pack(queue)
            rows = list(islice(self._db.scan(prefix, keys.after(prefix)), ROWS + 1))
            if len(rows) > ROWS:
                self._batch.delete_range(prefix, keys.after(prefix))
                continue
            for key, _ in rows:
                self._batch.delete(key)
        self._batch.delete(keys.removed_queue_key(queue))


def _rows_of(
    scan: Callable[[bytes, bytes], Entries], kind: bytes, partitions: Sequence[int], start: bytes
) -> Iterator[_Row]:
    """The rows of some partitions, by ascending number, from the key ``start`` on.

    Partitions of other queues between them are skipped with a seek.
    """
    end = keys.after(kind + keys.pack(partitions[-1]))
    wanted = iter(partitions)
    partition: int | None = next(wanted)
    while partition is not None:
        for key, value in scan(max(start, kind + keys.pack(partition)), end):
            owner = keys.unpack(key[len(kind) : len(kind) + 8])
            while partition is not None and partition < owner:
                partition = next(wanted, None)
            if partition != owner:
                break
            yield _Row(owner, key, value)
        else:
            return
