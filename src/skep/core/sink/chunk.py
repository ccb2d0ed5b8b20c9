"""Staged rows as they are stored: validated, grouped by partition, encrypted.

Everything that can be rejected is rejected here, because publishing has no caller to report to.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from operator import mul
from typing import Any, NamedTuple
from uuid import UUID, uuid4
from zlib import crc32

import msgspec
from msgspec.structs import replace

from skep.core.limits import Limits
from skep.core.log.encryption import KeyRing, place_of
from skep.errors import Corrupted, Invalid, TooLarge
from skep.model.name import DEFAULT_PARTITION, check_name, check_queue_name, check_transaction_id
from skep.model.queue import Queue
from skep.model.segment import ENCRYPTED, Columns
from skep.model.sink import StagedRows

CHUNK_ROWS = 250_000
"""The most rows of a chunk: it is published in one step, which must be short."""


class PartitionRows(msgspec.Struct, frozen=True, array_like=True):
    """The rows of a chunk that go to one partition, in their order."""

    queue: str
    partition: str
    payloads: list[bytes]
    transaction_ids: list[str | None] | None
    trace_ids: list[bytes | None] | None
    encrypted: bool = False

    def columns(self, producer: str | None) -> Columns:
        count = len(self.payloads)
        return Columns(
            payloads=self.payloads,
            transaction_ids=self.transaction_ids,
            trace_ids=self.trace_ids,
            producers=[producer] * count if producer else None,
            flags=bytes([ENCRYPTED]) * count if self.encrypted else None,
        )

    def sealed(self, keys: KeyRing) -> "PartitionRows":
        """The rows encrypted. A payload is bound to its transaction id, so each row gets one."""
        if self.encrypted:
            return self
        keys.check(self.queue)
        ids = [chosen or str(uuid4()) for chosen in self.transaction_ids or [None] * len(self)]
        payloads = [
            keys.encrypt(payload, place_of(self.queue, self.partition, chosen))
            for payload, chosen in zip(self.payloads, ids, strict=True)
        ]
        return replace(self, payloads=payloads, transaction_ids=list(ids), encrypted=True)

    def sealed_for(self, queue: Queue | None, keys: KeyRing) -> "PartitionRows":
        """The rows as their queue stores them: encrypted, even if staged before the queue was."""
        encrypted = queue is not None and queue.options.encryption_enabled
        return self.sealed(keys) if encrypted else self

    def __len__(self) -> int:
        return len(self.payloads)

    @property
    def size(self) -> int:
        return sum(map(len, self.payloads))

    @property
    def ids(self) -> int:
        """How many transaction ids have to be looked up to publish the rows."""
        return len(self.transaction_ids or ())

    def split(self, most: int) -> Iterator["PartitionRows"]:
        """The same rows in parts with at most ``most`` transaction ids."""
        if self.ids <= most:
            yield self
            return
        for at in range(0, len(self), most):
            rows = slice(at, at + most)
            yield replace(
                self,
                payloads=self.payloads[rows],
                transaction_ids=self.transaction_ids and self.transaction_ids[rows],
                trace_ids=self.trace_ids and self.trace_ids[rows],
            )

    def checksums(self) -> list[int]:
        """A checksum of each row that does not depend on the other rows."""
        seed = crc32(f"{self.queue}\0{self.partition}".encode())
        seeds: Iterable[int] = repeat(seed)
        if self.transaction_ids is not None:
            ids = (f"{each}\0".encode() if each else b"" for each in self.transaction_ids)
            seeds = map(crc32, ids, seeds)
        if self.trace_ids is not None:
            seeds = map(crc32, (each or b"" for each in self.trace_ids), seeds)
        return list(map(crc32, self.payloads, seeds))


class Content(msgspec.Struct, frozen=True, array_like=True):
    """A checksum of rows that is the same in any order, in any chunks, from any tasks.

    It detects accidental differences, not deliberate collisions. The sum of squares detects rows
    whose differences cancel out in the sum.
    """

    rows: int = 0
    sums: int = 0
    squares: int = 0

    def __add__(self, other: "Content") -> "Content":
        return Content(
            self.rows + other.rows,
            (self.sums + other.sums) % _MODULUS,
            (self.squares + other.squares) % _MODULUS,
        )


def content_of(groups: Iterable[PartitionRows]) -> Content:
    """The content of rows in the clear: encrypted rows differ each time."""
    content = Content()
    for group in groups:
        sums = group.checksums()
        content += Content(len(sums), sum(sums) % _MODULUS, sum(map(mul, sums, sums)) % _MODULUS)
    return content


_MODULUS = 1 << 63


class Chunk(msgspec.Struct, frozen=True, array_like=True):
    """A chunk as it is stored; ``producer`` is the principal that staged it."""

    groups: list[PartitionRows]
    producer: str | None


class Part(NamedTuple):
    """Encoded rows of a chunk, no more than one step publishes."""

    value: bytes
    rows: int
    size: int
    queues: dict[str, int]
    partitions: int
    ids: int


def encode(groups: Iterable[PartitionRows], producer: str | None, limits: Limits) -> list[Part]:
    """A chunk in parts, at least one, none with more partitions or ids than a step publishes."""
    return [_encode(part, producer) for part in _split(groups, limits)]


def _encode(groups: list[PartitionRows], producer: str | None) -> Part:
    queues: dict[str, int] = {}
    for each in groups:
        queues[each.queue] = queues.get(each.queue, 0) + len(each)
    return Part(
        value=msgspec.msgpack.encode(Chunk(groups, producer)),
        rows=sum(map(len, groups)),
        size=sum(each.size for each in groups),
        queues=queues,
        partitions=len(groups),
        ids=sum(each.ids for each in groups),
    )


def _split(groups: Iterable[PartitionRows], limits: Limits) -> Iterator[list[PartitionRows]]:
    partitions, ids = limits.step_partitions, limits.step_ids
    part: list[PartitionRows] = []
    part_ids = 0
    for rows in (split for group in groups for split in group.split(ids)):
        if part and (len(part) == partitions or part_ids + rows.ids > ids):
            yield part
            part, part_ids = [], 0
        part.append(rows)
        part_ids += rows.ids
    yield part


def decode(value: bytes) -> Chunk:
    try:
        return msgspec.msgpack.decode(value, type=Chunk)
    except msgspec.MsgspecError as error:
        raise Corrupted(f"a staged chunk cannot be read: {error}") from None


def group(rows: StagedRows, queue: str | None, limits: Limits) -> list[PartitionRows]:
    """The rows by queue and partition. Rows that name no queue go to ``queue``."""
    if len(rows) > CHUNK_ROWS:
        raise TooLarge("rows", f"a chunk has at most {CHUNK_ROWS} rows, not {len(rows)}")
    payloads = _payloads(rows.payloads, limits.payload_bytes)
    if queue is not None:
        check_queue_name("queue", queue)
    queues = _names("queue", rows.queues, queue, len(rows))
    partitions = _names("partition", rows.partitions, DEFAULT_PARTITION, len(rows))
    ids = _each("transaction_id", rows.transaction_ids, check_transaction_id, len(rows))
    traces = _each("trace_id", rows.trace_ids, _trace, len(rows))
    return [
        PartitionRows(name, partition, _pick(payloads, at), _filled(ids, at), _filled(traces, at))
        for (name, partition), at in _indexes(zip(queues, partitions, strict=True)).items()
    ]


def _indexes(names: Iterable[tuple[str, str]]) -> dict[tuple[str, str], list[int]]:
    """The indexes of the rows of each queue and partition."""
    indexes: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, name in enumerate(names):
        indexes[name].append(index)
    return indexes


def _payloads(payloads: Sequence[bytes | None], most: int) -> list[bytes]:
    if None in payloads:
        raise Invalid(f"payload[{payloads.index(None)}]", "must not be null")
    kept = [payload for payload in payloads if isinstance(payload, bytes)]
    if len(kept) != len(payloads):
        index = next(i for i, each in enumerate(payloads) if not isinstance(each, bytes))
        kind = type(payloads[index]).__name__
        raise Invalid(f"payload[{index}]", f"must be bytes, not {kind}")
    if max(map(len, kept), default=0) > most:
        index = next(i for i, payload in enumerate(kept) if len(payload) > most)
        size = len(kept[index])
        raise Invalid(f"payload[{index}]", f"is {size} bytes long, at most {most} are allowed")
    return kept


def _names(
    field: str, column: Sequence[str | None] | None, default: str | None, count: int
) -> Iterable[str]:
    """A name for each row; each distinct name is checked once."""
    if column is None:
        column = [None] if count else []
    else:
        _check_length(field, column, count)
    names: dict[str | None, str] = {}
    for name in dict.fromkeys(column):
        if name is not None:
            names[name] = _checked(field, column, name)
        elif default is not None:
            names[name] = default
        else:
            raise Invalid(f"{field}[{column.index(None)}]", "is required: there is no default")
    if len(column) != count:
        return repeat(names[None], count)
    return [names[name] for name in column]


def _checked(field: str, column: Sequence[str | None], name: str) -> str:
    try:
        return (check_queue_name if field == "queue" else check_name)(field, name)
    except Invalid as error:
        raise Invalid(f"{field}[{column.index(name)}]", error.reason) from None


def _each(field: str, column: Sequence[Any] | None, check: Any, count: int) -> list[Any] | None:
    """A column whose entries have passed ``check``; None if it has none."""
    if column is None:
        return None
    _check_length(field, column, count)
    if not any(entry is not None for entry in column):
        return None
    return [
        None if entry is None else check(f"{field}[{index}]", entry)
        for index, entry in enumerate(column)
    ]


def _check_length(field: str, column: Sequence[object], count: int) -> None:
    if len(column) != count:
        raise Invalid(field, f"has {len(column)} rows, and there are {count} payloads")


def _trace(field: str, text: object) -> bytes:
    try:
        trace = UUID(text) if isinstance(text, str) else None
    except ValueError:
        trace = None
    if trace is None or not trace.int:
        raise Invalid(field, "must be a UUID other than nil")
    return trace.bytes


def _pick(column: list[Any], at: list[int]) -> list[Any]:
    return column if len(at) == len(column) else [column[index] for index in at]


def _filled(column: list[Any] | None, at: list[int]) -> list[Any] | None:
    """The entries of a column at these indexes; None if all of them are None."""
    if column is None:
        return None
    picked = _pick(column, at)
    return picked if any(entry is not None for entry in picked) else None
