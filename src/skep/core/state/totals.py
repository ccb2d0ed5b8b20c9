"""Sums over the partitions of a queue and of a group, corrected one partition at a time.

Only partitions with something to count are held: one that every group has read costs nothing.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Hashable
from itertools import chain, islice
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from skep.model.name import Instant, LeaseId

P = TypeVar("P", bound=Hashable)
"""A partition."""

Age: TypeAlias = int
"""When the oldest message of a partition was pushed, and the partition's number, in one integer."""

_NUMBER_BITS = 64
_NUMBER = (1 << _NUMBER_BITS) - 1
_CHUNK = 1000
_NOTHING = (0, 0, 0)


class Held(NamedTuple):
    """What a live lease holds of a partition, and how much of it was acknowledged."""

    lease: LeaseId
    messages: int
    acked: int


class QueueTotals(Generic[P]):
    """Messages of a queue by their status, as seen by all of its groups together."""

    __slots__ = ("_counted", "failed", "pending", "processing", "uncounted")

    def __init__(self) -> None:
        self.pending = 0
        self.processing = 0
        self.failed = 0
        self._counted: dict[P, tuple[int, int, int]] = {}
        self.uncounted: deque[P] = deque()
        """Partitions that are yet to be counted, besides those that have changed since."""

    def put(self, partition: P, pending: int, processing: int, failed: int) -> None:
        """Let a partition count for this much, instead of what it counted for before."""
        now = pending, processing, failed
        before = self._counted.get(partition, _NOTHING)
        if now == before:
            return
        self.pending += pending - before[0]
        self.processing += processing - before[1]
        self.failed += failed - before[2]
        if now == _NOTHING:
            del self._counted[partition]
        else:
            self._counted[partition] = now


class GroupTotals(Generic[P]):
    """Where messages wait for a group, the oldest first, and what its leases hold."""

    __slots__ = ("_ages", "acked", "held", "leased", "leases", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[P, Age] = {}
        self._ages = SortedNumbers()
        self.leased: dict[P, Held] = {}
        self.leases: dict[LeaseId, int] = {}
        """The leases that live, and in how many partitions."""
        self.held = 0
        self.acked = 0

    def oldest(self, limit: int) -> list[int]:
        """The numbers of the partitions whose messages wait longest, the oldest first."""
        return [age & _NUMBER for age in self._ages.first(limit)]

    def oldest_at(self) -> Instant | None:
        """Since when the oldest message waits, as far as is known."""
        first = self._ages.first(1)
        return first[0] >> _NUMBER_BITS if first else None

    def put(self, partition: P, age: Age | None, held: Held | None) -> None:
        """Replace what is counted of a partition; ``age`` is None if nothing waits there."""
        if age != self.waiting.get(partition):
            self._put_age(partition, age)
        if held != self.leased.get(partition):
            self._put_held(partition, held)

    def _put_age(self, partition: P, age: Age | None) -> None:
        before = self.waiting.pop(partition, None)
        if before is not None:
            self._ages.remove(before)
        if age is not None:
            self.waiting[partition] = age
            self._ages.add(age)

    def _put_held(self, partition: P, held: Held | None) -> None:
        before = self.leased.pop(partition, None)
        if before is not None:
            self._add(before, -1)
        if held is not None:
            self.leased[partition] = held
            self._add(held, 1)

    def _add(self, held: Held, sign: int) -> None:
        self.held += sign * held.messages
        self.acked += sign * held.acked
        partitions = self.leases.pop(held.lease, 0) + sign
        if partitions:
            self.leases[held.lease] = partitions


class SortedNumbers:
    """Numbers in ascending order, in chunks: adding and removing one of a million is cheap."""

    __slots__ = ("_chunks",)

    def __init__(self) -> None:
        self._chunks: list[list[int]] = []

    def add(self, number: int) -> None:
        if not self._chunks:
            self._chunks.append([number])
            return
        index = len(self._chunks) - 1
        if number < self._chunks[index][-1]:
            index = bisect_left(self._chunks, number, key=_last)
        chunk = self._chunks[index]
        insort(chunk, number)
        if len(chunk) > _CHUNK:
            self._chunks.insert(index + 1, chunk[_CHUNK // 2 :])
            del chunk[_CHUNK // 2 :]

    def remove(self, number: int) -> None:
        """Remove a number that is there."""
        index = bisect_left(self._chunks, number, key=_last)
        chunk = self._chunks[index]
        del chunk[bisect_left(chunk, number)]
        if not chunk:
            del self._chunks[index]

    def first(self, limit: int) -> list[int]:
        """The lowest numbers."""
        return list(islice(chain.from_iterable(self._chunks), limit))


def age_of(oldest_at: Instant, number: int) -> Age:
    return max(0, oldest_at) << _NUMBER_BITS | number


def _last(chunk: list[int]) -> int:
    return chunk[-1]
