"""Messages as Arrow record batches: column by column, without an object per message.

Spark uses a batch without conversion if its types are exactly these; all columns are nullable.
"""

import io
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skep.errors import Invalid
from skep.model.address import message_text
from skep.model.journal import Lanes, MessageRun, Range, Step
from skep.wire.body import encode
from skep.wire.journal.journal import ReadBody

Array: TypeAlias = npt.NDArray[Any]
T = TypeVar("T")

SCHEMA = pa.schema(
    [
        ("queue", pa.string()),
        ("partition", pa.string()),
        ("offset", pa.int64()),
        ("message_id", pa.string()),
        ("transaction_id", pa.string()),
        ("trace_id", pa.string()),
        ("producer", pa.string()),
        ("created_at", pa.timestamp("us", tz="UTC")),
        ("payload", pa.string()),
        ("lane", pa.int32()),
        ("position", pa.int64()),
    ]
)
PIECE = 256 << 10
"""Bytes per write."""
_HEX = np.frombuffer(bytes(range(256)).hex().encode(), np.uint16)
"""The two digits of each byte."""
_HEAD, _DIGITS = 24, 12
"""A message id is a prefix of its partition and twelve digits of offset."""
_TEXT = 36
_GROUPS = ((0, 8), (9, 13), (14, 18), (19, 23), (24, 36))
"""Positions of the digits of a UUID in its text."""


class ArrowBatch:
    """The messages of runs of a queue as columns, each created when it is requested."""

    def __init__(self, queue: str, runs: Sequence[MessageRun], payload: pa.DataType) -> None:
        self._queue = queue
        self._runs = runs
        self._payload = payload
        self._counts = np.array([run.count for run in runs], np.int64)
        self._total = int(self._counts.sum())

    def columns(self, schema: pa.Schema) -> pa.RecordBatch:
        makers: dict[str, Callable[[], pa.Array]] = {
            "queue": lambda: pa.repeat(self._queue, self._total),
            "partition": self._partition,
            "offset": lambda: pa.array(self._offsets),
            "message_id": lambda: self._message_ids,
            "transaction_id": self._transaction_ids,
            "trace_id": self._trace_ids,
            "producer": lambda: self._texts([run.columns.producers for run in self._runs]),
            "created_at": self._created_at,
            "payload": self._payloads,
            "lane": lambda: pa.array(self._each([run.lane for run in self._runs], np.int32)),
            "position": lambda: pa.array(self._from([run.position for run in self._runs])),
        }
        if not self._total:
            return pa.RecordBatch.from_pylist([], schema)
        return pa.record_batch([makers[name]() for name in schema.names], schema=schema)

    # Numbers.

    @cached_property
    def _offsets(self) -> Array:
        return self._from([run.start for run in self._runs])

    def _each(self, values: Sequence[int], kind: type[np.integer[Any]] = np.int64) -> Array:
        """A value per run, repeated for each of its messages."""
        return np.repeat(np.array(values, kind), self._counts)

    def _from(self, starts: Sequence[int]) -> Array:
        """Consecutive numbers from a start in each run."""
        before = np.cumsum(self._counts) - self._counts
        return self._each(starts) + np.arange(self._total) - np.repeat(before, self._counts)

    def _created_at(self) -> pa.Array:
        micros = self._each([run.created_at for run in self._runs])
        return pa.array(micros).cast(pa.timestamp("us", tz="UTC"))

    # Strings.

    def _partition(self) -> pa.Array:
        names = pa.array([run.name for run in self._runs], pa.string())
        return names.take(pa.array(self._each(range(len(self._runs)))))

    @cached_property
    def _message_ids(self) -> pa.Array:
        if any(run.start + run.count >> 4 * _DIGITS for run in self._runs):
            pairs = zip(
                self._each([run.partition for run in self._runs]), self._offsets, strict=True
            )
            return pa.array([message_text(int(number), int(at)) for number, at in pairs])
        heads = "".join([message_text(run.partition, 0)[:_HEAD] for run in self._runs])
        text = np.empty((self._total, _TEXT), np.uint8)
        text[:, :_HEAD] = np.repeat(
            np.frombuffer(heads.encode(), np.uint8).reshape(-1, _HEAD), self._counts, axis=0
        )
        offsets = self._offsets.astype(">u8").view(np.uint8).reshape(-1, 8)
        text[:, _HEAD:] = _hex(offsets[:, -_DIGITS // 2 :])
        return _fixed(text)

    def _transaction_ids(self) -> pa.Array:
        """Explicit transaction ids; the message id for messages without one."""
        columns = [run.columns.transaction_ids for run in self._runs]
        if all(column is None for column in columns):
            return self._message_ids
        return pc.coalesce(self._texts(columns), self._message_ids)

    def _trace_ids(self) -> pa.Array:
        columns = [run.columns.trace_ids for run in self._runs]
        if all(column is None for column in columns):
            return pa.nulls(self._total, pa.string())
        none = bytes(16)
        data = b"".join(
            none * run.count if column is None else b"".join([trace or none for trace in column])
            for run, column in zip(self._runs, columns, strict=True)
        )
        ids = np.frombuffer(data, np.uint8).reshape(-1, 16)
        digits = _hex(ids)
        text = np.full((self._total, _TEXT), ord("-"), np.uint8)
        at = 0
        for start, stop in _GROUPS:
            text[:, start:stop] = digits[:, at : at + stop - start]
            at += stop - start
        return _null_if(_fixed(text), (ids == 0).all(axis=1))

    def _texts(self, columns: Sequence[Sequence[str | None] | None]) -> pa.Array:
        """A column of strings in which no bytes stand for null."""
        if all(column is None for column in columns):
            return pa.nulls(self._total, pa.string())
        made = _column(
            [
                [None] * run.count if column is None else column
                for run, column in zip(self._runs, columns, strict=True)
            ],
            pa.string(),
            lambda texts: [(text or "").encode() for text in texts],
        )
        return _null_if(made, pc.equal(pc.binary_length(made), 0).to_numpy(zero_copy_only=False))

    def _payloads(self) -> pa.Array:
        made = _column([run.columns.payloads for run in self._runs], self._payload, list)
        try:
            made.validate(full=True)
        except pa.ArrowInvalid:
            raise self._not_text() from None
        return made

    def _not_text(self) -> Invalid:
        """The first payload that is not text, named by its message."""
        payloads = ((run, at) for run in self._runs for at in range(run.count))
        run, at = next((run, at) for run, at in payloads if not _is_text(run.columns.payloads[at]))
        offset = run.start + at
        return Invalid(
            "payload",
            f"message {message_text(run.partition, offset)} (queue {self._queue!r}, partition "
            f"{run.name!r}, offset {offset}) is not UTF-8 text: read it with payloadFormat=binary",
        )


def _is_text(payload: bytes) -> bool:
    try:
        str(payload, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def schema_of(columns: Sequence[str], *, binary: bool) -> pa.Schema:
    """The requested columns, in their order."""
    schema = SCHEMA
    if binary:
        schema = schema.set(schema.get_field_index("payload"), pa.field("payload", pa.binary()))
    return pa.schema([schema.field(name) for name in columns])


def _column(
    columns: Iterable[Sequence[T]],
    kind: pa.DataType,
    to_bytes: Callable[[Sequence[T]], list[bytes]],
) -> pa.Array:
    """One column from several. Buffers are copied in one piece each."""
    ends: list[Any] = []
    pieces: list[Any] = []
    loose: list[bytes] = []

    def gather() -> None:
        if loose:
            ends.append(array("I", accumulate(map(len, loose), initial=0)))
            pieces.extend(loose)
            loose.clear()

    for column in columns:
        packed = getattr(column, "packed", None)
        if packed is None:
            loose += to_bytes(column)
        else:
            gather()
            mine, data = packed()
            ends.append(mine)
            pieces.append(data)
    gather()
    offsets = _offsets(ends)
    data = _joined(pieces, int(offsets[-1]))
    return pa.Array.from_buffers(kind, len(offsets) - 1, [None, pa.py_buffer(offsets), data])


def _joined(pieces: Iterable[Any], size: int) -> pa.Buffer:
    """One array of all, in memory that Arrow reuses; the system's was new each time."""
    whole = pa.allocate_buffer(size)
    view, at = memoryview(whole).cast("B"), 0
    for piece in pieces:
        view[at : at + len(piece)] = piece
        at += len(piece)
    return whole


def _offsets(ends: Sequence[Any]) -> Array:
    """The end offsets of the entries of several buffers, one after the other.

    Vectorised, because buffers may be many and short.
    """
    each = np.diff(np.frombuffer(b"".join(ends), np.uint32))
    # The gap between the end of one buffer and the start of the next is an entry of no length.
    seams = np.cumsum(np.fromiter(map(len, ends), np.int64, len(ends)))[:-1] - 1
    each = np.delete(each, seams)
    offsets = np.zeros(len(each) + 1, np.int32)
    np.cumsum(each, out=offsets[1:])
    return offsets


def _hex(rows: Array) -> Array:
    """The hexadecimal digits of bytes, row by row."""
    return _HEX[rows].view(np.uint8)


def _fixed(text: Array) -> pa.Array:
    """Strings of the same length, side by side."""
    count, length = text.shape
    offsets = np.arange(0, (count + 1) * length, length, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    )


def _null_if(column: pa.Array, mask: Array) -> pa.Array:
    return pc.if_else(pa.array(mask), pa.scalar(None, column.type), column)


class Writer:
    """A stream of record batches, each with its end position: ``skep`` in its metadata, as JSON.

    A batch may exceed the requested rows by one segment, and may be empty at the end.
    """

    def __init__(self, body: ReadBody) -> None:
        self._body = body
        binary = body.payload == "binary"
        self._payload = pa.binary() if binary else pa.string()
        self._schema = schema_of(body.columns, binary=binary)
        self._out = _Out()
        self._stream = pa.ipc.new_stream(pa.PythonFile(self._out, mode="w"), self._schema)

    def begin(self) -> Iterator[bytes]:
        return self._out.take()

    def write(self, step: Step) -> Iterator[bytes]:
        """All batches of a step; the first of them reports what is missing."""
        missing, reached = step.missing, Lanes()
        for runs in _portions(step.runs, self._body.batch_rows):
            lanes = {run.lane: run.position + run.count for run in runs}
            self._write(runs, lanes, missing)
            reached |= lanes
            missing = []
        if left := {lane: at for lane, at in step.lanes.items() if reached.get(lane) != at}:
            self._write([], left, missing)
        return self._out.take()

    def _write(self, runs: Sequence[MessageRun], lanes: Lanes, missing: list[Range]) -> None:
        self._tell(runs, {"lanes": lanes, "missing": missing})

    def _tell(self, runs: Sequence[MessageRun], told: dict[str, object]) -> None:
        batch = ArrowBatch(self._body.queue, runs, self._payload).columns(self._schema)
        self._stream.write_batch(batch, custom_metadata={"skep": encode(told)})

    def fail(self, reason: str, status: int, *, again: bool) -> Iterator[bytes]:
        """The error in place of the rest, and whether to retry (``again``)."""
        self._tell([], {"error": reason, "status": status, "again": again})
        return self.end()

    def end(self) -> Iterator[bytes]:
        self._stream.close()
        return self._out.take()


class _Out(io.RawIOBase):
    """A file whose content is taken in pieces."""

    def __init__(self) -> None:
        self._parts: list[Any] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        # Not copied yet: it is bytes, or a buffer of a batch that does not change any more.
        self._parts.append(data)
        return len(data)

    def take(self) -> Iterator[bytes]:
        """Everything written, in pieces that stay in the CPU cache while they are sent."""
        parts, self._parts = self._parts, []
        near: list[Any] = []
        size = 0
        for part in parts:
            for at in range(0, len(part), PIECE):
                some = part[at : at + PIECE]
                if size + len(some) > PIECE:
                    yield b"".join(near)
                    near, size = [], 0
                near.append(some)
                size += len(some)
        yield b"".join(near)


def _portions(runs: Sequence[MessageRun], rows: int) -> Iterator[Sequence[MessageRun]]:
    """Runs in groups of about this many rows."""
    portion: list[MessageRun] = []
    count = 0
    for run in runs:
        portion.append(run)
        count += run.count
        if count >= rows:
            yield portion
            portion, count = [], 0
    if portion:
        yield portion
