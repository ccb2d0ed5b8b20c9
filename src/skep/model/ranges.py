"""A set of offsets as ranges: sorted pairs ``(start, stop)`` that neither touch nor overlap."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import TypeAlias

from skep.model.name import Offset

Ranges: TypeAlias = tuple[tuple[Offset, Offset], ...]
_start = itemgetter(0)


def from_offsets(offsets: Iterable[Offset]) -> Ranges:
    """The ranges that hold exactly ``offsets``, given in any order."""
    return _merge((offset, offset + 1) for offset in sorted(offsets))


def union(a: Ranges, b: Ranges) -> Ranges:
    if not a or not b:
        return a or b
    return _merge(sorted((*a, *b)))


def contains(ranges: Ranges, offset: Offset) -> bool:
    index = bisect_right(ranges, offset, key=_start)
    return index > 0 and offset < ranges[index - 1][1]


def size(ranges: Ranges) -> int:
    return sum(stop - start for start, stop in ranges)


def overlap(ranges: Ranges, start: Offset, stop: Offset) -> int:
    """How many offsets of ``[start, stop)`` are in ``ranges``."""
    return sum(max(0, min(high, stop) - max(low, start)) for low, high in ranges)


def advance(cursor: Offset, ranges: Ranges) -> tuple[Offset, Ranges]:
    """Move ``cursor`` over what is contiguous; return it with the ranges still beyond it."""
    for index, (start, stop) in enumerate(ranges):
        if start > cursor:
            return cursor, ranges[index:]
        cursor = max(cursor, stop)
    return cursor, ()


def missing(ranges: Ranges, start: Offset, stop: Offset) -> Iterator[Offset]:
    """The offsets of ``[start, stop)`` that are not in ``ranges``, in order."""
    for low, high in ranges:
        yield from range(start, min(low, stop))
        start = max(start, high)
    yield from range(start, stop)


def complement(ranges: Ranges, start: Offset, stop: Offset) -> Ranges:
    """The offsets of ``[start, stop)`` that are not in ``ranges``, as ranges."""
    rest: list[tuple[Offset, Offset]] = []
    for low, high in ranges:
        if start < min(low, stop):
            rest.append((start, min(low, stop)))
        start = max(start, high)
    if start < stop:
        rest.append((start, stop))
    return tuple(rest)


def _merge(pairs: Iterable[tuple[Offset, Offset]]) -> Ranges:
    merged: list[tuple[Offset, Offset]] = []
    for start, stop in pairs:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return tuple(merged)
