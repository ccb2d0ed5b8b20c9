"""Consecutive messages of a partition that one commit appended, kept as columns.

A column is a plain sequence, so that a store may hand out a list, or a view over one
buffer that Arrow can wrap. A column that nobody filled is ``None``.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from typing import Any

import msgspec
from msgspec.structs import replace

from skep.model.name import Instant, Offset

ENCRYPTED = 1
DELETED = 2


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """Messages side by side: the n-th entry of each column belongs to the n-th message.

    ``flags`` holds a byte of ``ENCRYPTED`` and ``DELETED`` per message.
    """

    payloads: Sequence[bytes]
    transaction_ids: Sequence[str | None] | None = None
    trace_ids: Sequence[bytes | None] | None = None
    producers: Sequence[str | None] | None = None
    flags: bytes | None = None

    def __len__(self) -> int:
        return len(self.payloads)

    def cut(self, start: int, stop: int) -> "Columns":
        return Columns(
            payloads=self.payloads[start:stop],
            transaction_ids=_cut(self.transaction_ids, start, stop),
            trace_ids=_cut(self.trace_ids, start, stop),
            producers=_cut(self.producers, start, stop),
            flags=_cut(self.flags, start, stop),
        )

    def pick(self, indexes: Sequence[int]) -> "Columns":
        return Columns(
            payloads=[self.payloads[i] for i in indexes],
            transaction_ids=_pick(self.transaction_ids, indexes),
            trace_ids=_pick(self.trace_ids, indexes),
            producers=_pick(self.producers, indexes),
            flags=self.flags and bytes(self.flags[i] for i in indexes),
        )


def concat(parts: Sequence[Columns]) -> Columns:
    """One after the other. A column stays ``None`` only if it is ``None`` in every part."""
    if len(parts) == 1:
        return parts[0]
    return Columns(
        payloads=list(chain.from_iterable(part.payloads for part in parts)),
        transaction_ids=_chain([(part.transaction_ids, len(part)) for part in parts]),
        trace_ids=_chain([(part.trace_ids, len(part)) for part in parts]),
        producers=_chain([(part.producers, len(part)) for part in parts]),
        flags=(
            b"".join(part.flags or bytes(len(part)) for part in parts)
            if any(part.flags for part in parts)
            else None
        ),
    )


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """The messages ``[start, end)`` of a partition, all pushed at ``created_at``.

    ``lane`` and ``position`` say where it stands in its queue's journal: its first message
    is the ``position``-th that was committed to the queue through that lane.
    """

    queue: int
    partition: int
    start: Offset
    created_at: Instant
    lane: int
    position: int
    size: int
    """Bytes of payload."""
    columns: Columns

    @property
    def end(self) -> Offset:
        return self.start + len(self.columns.payloads)

    def flag(self, offset: Offset) -> int:
        flags = self.columns.flags
        return flags[offset - self.start] if flags else 0

    def chosen_id(self, offset: Offset) -> str | None:
        ids = self.columns.transaction_ids
        return ids[offset - self.start] if ids else None

    def blank(self, offset: Offset) -> "Segment | None":
        """The segment with one message emptied and marked; None if it is marked already."""
        index = offset - self.start
        if self.flag(offset) & DELETED:
            return None
        columns = self.columns
        flags = bytearray(columns.flags or bytes(len(columns)))
        flags[index] = DELETED
        return replace(
            self,
            size=self.size - len(columns.payloads[index]),
            columns=Columns(
                payloads=_set(columns.payloads, index, b""),
                transaction_ids=_set(columns.transaction_ids, index, None),
                trace_ids=_set(columns.trace_ids, index, None),
                producers=_set(columns.producers, index, None),
                flags=bytes(flags),
            ),
        )


def until_enough(
    segments: Iterable[Segment], offset: Offset, *, messages: int, size: int
) -> list[Segment]:
    """The first segments, up to ``messages`` messages from ``offset`` on or ``size`` bytes."""
    found: list[Segment] = []
    for segment in segments:
        found.append(segment)
        messages -= segment.end - max(offset, segment.start)
        size -= segment.size
        if messages <= 0 or size <= 0:
            break
    return found


def _cut(column: Any, start: int, stop: int) -> Any:
    return None if column is None else column[start:stop]


def _set(column: Any, index: int, value: Any) -> Any:
    return None if column is None else [*column[:index], value, *column[index + 1 :]]


def _pick(column: Sequence[Any] | None, indexes: Sequence[int]) -> list[Any] | None:
    return None if column is None else [column[i] for i in indexes]


def _chain(columns: Sequence[tuple[Sequence[Any] | None, int]]) -> list[Any] | None:
    if all(column is None for column, _ in columns):
        return None
    return list(
        chain.from_iterable(
            repeat(None, count) if column is None else column for column, count in columns
        )
    )
