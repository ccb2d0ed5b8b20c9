"""How a segment is stored: a header, then its columns as contiguous buffers.

    header      version, which columns there are, CRC-32, count, lane, created_at, position, queue
    offsets     count + 1 four-byte ends, for payloads, transaction ids and producers in turn
    data        their bytes in turn, then 16 bytes of trace id and 1 byte of flags per message

Everything is little-endian, as Arrow has it, so that a column can be wrapped without copying.
A text of no bytes and a trace id of zeros stand for None.
"""

import struct
import zlib
from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Generic, TypeVar, overload

from skep.errors import Corrupted
from skep.model.segment import Columns, Segment
from skep.store.rocksdb.keys import unpack_pair

VERSION = 1
_TRANSACTION_IDS, _TRACE_IDS, _PRODUCERS, _FLAGS = 1, 2, 4, 8
_HEADER = struct.Struct("<BBHIIIQQQ")
_PREFIX = struct.Struct("<BBHI")
_LAST = struct.Struct("<I")
_NO_TRACE = bytes(16)

T = TypeVar("T")


def encode(segment: Segment) -> bytes:
    columns = segment.columns
    present = (
        (_TRANSACTION_IDS if columns.transaction_ids is not None else 0)
        | (_TRACE_IDS if columns.trace_ids is not None else 0)
        | (_PRODUCERS if columns.producers is not None else 0)
        | (_FLAGS if columns.flags is not None else 0)
    )
    rest = _HEADER.pack(
        VERSION,
        present,
        0,
        0,
        len(columns),
        segment.lane,
        segment.created_at,
        segment.position,
        segment.queue,
    )[_PREFIX.size :] + b"".join(_buffers(columns))
    return _PREFIX.pack(VERSION, present, 0, zlib.crc32(rest, present)) + rest


def has_trace_ids(value: bytes) -> bool:
    """Whether an encoded segment has trace ids; reads only the header."""
    return len(value) > 1 and bool(value[1] & _TRACE_IDS)


def queue_of(value: bytes) -> int | None:
    """The queue of an encoded segment; reads only the header."""
    return int(_HEADER.unpack_from(value)[-1]) if len(value) >= _HEADER.size else None


def decode(key: bytes, value: bytes) -> Segment:
    partition, start = unpack_pair(key)
    if len(value) < _HEADER.size:
        raise Corrupted(f"a segment of partition {partition} is cut short; restore a backup")
    version, present, zero, checksum, count, lane, created_at, position, queue = (
        _HEADER.unpack_from(value)
    )
    if version != VERSION:
        raise Corrupted(f"a segment has format {version}, this version reads {VERSION}")
    if zlib.crc32(memoryview(value)[_PREFIX.size :], zero << 8 | present) != checksum:
        raise Corrupted(
            f"the segment of partition {partition} at offset {start} fails its checksum; "
            "restore a backup"
        )
    return Segment(
        queue=queue,
        partition=partition,
        start=start,
        created_at=created_at,
        lane=lane,
        position=position,
        size=_LAST.unpack_from(value, _HEADER.size + 4 * count)[0],
        columns=_columns(value, present, count),
    )


class BufferColumn(Sequence[T], Generic[T]):
    """A column over the segment's buffer; items are decoded on access."""

    __slots__ = ("_base", "_buffer", "_ends")

    def __init__(self, buffer: bytes, ends: memoryview, base: int) -> None:
        self._buffer = buffer
        self._ends = ends
        self._base = base

    def __len__(self) -> int:
        return len(self._ends) - 1

    def packed(self) -> tuple[memoryview, memoryview]:
        """The offsets of its items and of the end, and the bytes of all items."""
        data = memoryview(self._buffer)[self._base : self._base + self._ends[-1]]
        return self._ends, data

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return [self[at] for at in range(start, stop, step)]
            return list(self._between(start, stop))
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        index %= len(self)
        return self._entry(self._ends[index], self._ends[index + 1])

    def __iter__(self) -> Iterator[T]:
        return self._between(0, len(self))

    def _between(self, start: int, stop: int) -> Iterator[T]:
        ends = self._ends[start : stop + 1].tolist()
        return map(self._entry, ends, ends[1:])

    def _entry(self, start: int, stop: int) -> T:
        raise NotImplementedError


class BytesColumn(BufferColumn[bytes]):
    __slots__ = ()

    def _entry(self, start: int, stop: int) -> bytes:
        return self._buffer[self._base + start : self._base + stop]


class TextColumn(BufferColumn[str | None]):
    __slots__ = ()

    def _entry(self, start: int, stop: int) -> str | None:
        return self._buffer[self._base + start : self._base + stop].decode() or None


def _buffers(columns: Columns) -> list[bytes]:
    texts = [
        [(text or "").encode() for text in column]
        for column in (columns.transaction_ids, columns.producers)
        if column is not None
    ]
    buffers = [
        array("I", accumulate(map(len, column), initial=0)).tobytes()
        for column in (columns.payloads, *texts)
    ]
    # Spread into one list rather than yielded one by one: a generator costs a message more
    # than its copy does.
    buffers += columns.payloads
    for column in texts:
        buffers += column
    if columns.trace_ids is not None:
        buffers += [trace or _NO_TRACE for trace in columns.trace_ids]
    if columns.flags is not None:
        buffers.append(columns.flags)
    return buffers


def _columns(value: bytes, present: int, count: int) -> Columns:
    ends_size = 4 * (count + 1)
    if not present:
        # The usual case, and many segments are short.
        base = _HEADER.size + ends_size
        ends = memoryview(value)[_HEADER.size : base].cast("I")
        return Columns(payloads=BytesColumn(value, ends, base))
    return _all_columns(value, present, count, ends_size)


def _all_columns(value: bytes, present: int, count: int, ends_size: int) -> Columns:
    texts = bool(present & _TRANSACTION_IDS) + bool(present & _PRODUCERS)
    ends = [
        memoryview(value)[start : start + ends_size].cast("I")
        for start in range(_HEADER.size, _HEADER.size + ends_size * (1 + texts), ends_size)
    ]
    base = _HEADER.size + ends_size * (1 + texts)
    bases = list(accumulate((column[-1] for column in ends), initial=base))
    transaction_ids = TextColumn(value, ends[1], bases[1]) if present & _TRANSACTION_IDS else None
    producers = TextColumn(value, ends[-1], bases[-2]) if present & _PRODUCERS else None
    traces = bases[-1]
    flags = traces + (16 * count if present & _TRACE_IDS else 0)
    return Columns(
        payloads=BytesColumn(value, ends[0], bases[0]),
        transaction_ids=transaction_ids,
        trace_ids=_trace_ids(value[traces:flags]) if present & _TRACE_IDS else None,
        producers=producers,
        flags=value[flags : flags + count] if present & _FLAGS else None,
    )


def _trace_ids(data: bytes) -> list[bytes | None]:
    pieces = (data[at : at + 16] for at in range(0, len(data), 16))
    return [None if piece == _NO_TRACE else piece for piece in pieces]
