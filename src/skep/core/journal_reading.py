"""Reading ranges of the journal: what lies between two positions, and what is gone of it."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator, Sequence

import msgspec

from skep.core.catalogue import Catalogue
from skep.core.following import Following
from skep.core.journal import SEGMENTS
from skep.core.reading import Reading
from skep.core.state import PartitionState
from skep.errors import Invalid, PositionMismatch
from skep.model.journal import Range, Run, Step
from skep.model.names import check_count
from skep.model.segment import DELETED, Segment
from skep.store.protocol import Store

MAX_RANGES = 10_000
MAX_SHARES = 100_000
STEP, STEP_BYTES = 4096, 1 << 20
"""Messages that make a step, and bytes, if there are as many."""
MOST_SEGMENTS = 1024
PATIENCE = 8
"""How often everyone else has a turn between two steps, however many read."""


class Some(msgspec.Struct, frozen=True, kw_only=True):
    """Which partitions of a queue somebody reads: all that nothing speaks against."""

    partitions: frozenset[str] | None = None
    prefix: str = ""
    share: tuple[int, int] | None = None
    """Which one of how many shares of about the same size."""

    def check(self) -> None:
        if self.share is not None:
            check_count("share[1]", self.share[1], least=1, most=MAX_SHARES)
            check_count("share[0]", self.share[0], least=0, most=self.share[1] - 1)

    def has(self, partition: PartitionState) -> bool:
        if self.partitions is not None and partition.name not in self.partitions:
            return False
        return partition.name.startswith(self.prefix) and self._shares(partition.number)

    def _shares(self, number: int) -> bool:
        if self.share is None:
            return True
        index, of = self.share
        return zlib.crc32(number.to_bytes(8, "little")) % of == index


class JournalReading:
    def __init__(
        self, store: Store, catalogue: Catalogue, following: Following, reading: Reading
    ) -> None:
        self._store = store
        self._catalogue = catalogue
        self._following = following
        self._reading = reading
        self._passing = asyncio.Lock()

    def read(
        self, queue: str, number: int, ranges: Sequence[Range], some: Some
    ) -> AsyncIterator[Step]:
        """What the ranges hold, range by range, in the order of the commits.

        All that can be refused is refused before the first step.
        """
        known = self._catalogue.queue(queue)
        if known.config.number != number:
            raise PositionMismatch(f"queue {queue!r} was deleted and made anew")
        some.check()
        check_count("ranges", len(ranges), least=1, most=MAX_RANGES)
        for index, asked in enumerate(ranges):
            if not 0 <= asked.start <= asked.end < 1 << 63 or not 0 <= asked.lane < 1 << 31:
                raise Invalid(f"ranges[{index}]", "must be a lane, a start and an end behind it")
        return self._steps(number, ranges, some)

    async def _steps(self, queue: int, ranges: Sequence[Range], some: Some) -> AsyncIterator[Step]:
        limit = SEGMENTS
        for asked in ranges:
            at = asked.start
            while at < asked.end:
                segments = await self._store.read_journal(queue, asked.lane, at, limit=limit)
                step = await self._step(segments, Range(asked.lane, at, asked.end), some)
                limit = _limit(segments)
                at = step.position
                yield step
                await self._let_others_pass()

    async def _let_others_pass(self) -> None:
        """Reading seldom waits for anything, so that a push would wait for many steps of it."""
        async with self._passing:
            for _ in range(PATIENCE):
                await asyncio.sleep(0)

    async def _step(self, segments: Sequence[Segment], rest: Range, some: Some) -> Step:
        """What segments hold of a range; if there are none, all of it is gone."""
        runs: list[Run] = []
        missing: list[Range] = []
        at = rest.start
        for segment in segments:
            start = min(max(at, segment.position), rest.end)
            end = min(segment.position + len(segment.columns), rest.end)
            if start > at:
                missing.append(Range(rest.lane, at, start))
            at = max(start, end)
            if start >= end:
                break
            known = self._catalogue.partitions.get(segment.partition)
            partition = known or await self._partition_made_elsewhere(segment.partition)
            if partition is None:
                # Somebody deleted its row by hand: its messages have no name to go by.
                missing.append(Range(rest.lane, start, end))
            elif some.has(partition):
                first = segment.start - segment.position
                runs += self._runs(partition, segment, first + start, first + end)
        if not segments:
            missing.append(rest)
            at = rest.end
        return Step(runs=runs, missing=missing, lane=rest.lane, position=at)

    async def _partition_made_elsewhere(self, number: int) -> PartitionState | None:
        """A partition that another server may have made a moment ago."""
        await self._following.catch_up()
        return self._catalogue.partitions.get(number)

    def _runs(
        self, partition: PartitionState, segment: Segment, start: int, end: int
    ) -> Iterator[Run]:
        """The messages ``[start, end)`` of a segment, in the clear, without deleted ones."""
        for low, high in _kept(segment, start, end):
            columns = segment.columns
            if high - low < segment.end - segment.start:
                columns = columns.cut(low - segment.start, high - segment.start)
            yield Run(
                partition=partition.number,
                name=partition.name,
                start=low,
                created_at=segment.created_at,
                lane=segment.lane,
                position=segment.position + low - segment.start,
                count=high - low,
                columns=self._reading.in_the_clear(partition, columns),
            )


def _limit(segments: Sequence[Segment]) -> int:
    """How many segments to read next, so that it is worth a batch and nobody waits for it."""
    messages = sum(len(segment.columns) for segment in segments)
    size = sum(segment.size for segment in segments)
    steps = max(messages / STEP, size / STEP_BYTES)
    return max(1, min(MOST_SEGMENTS, int(len(segments) / steps))) if steps else SEGMENTS


def _kept(segment: Segment, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The stretches of offsets between messages that were deleted one by one."""
    flags = segment.columns.flags
    if flags is None or not any(flag & DELETED for flag in flags):
        yield start, end
        return
    at = start
    for offset in range(start, end):
        if segment.flag(offset) & DELETED:
            if at < offset:
                yield at, offset
            at = offset + 1
    if at < end:
        yield at, end
