"""Reading ranges of the journal: what lies between two positions, and what is gone of it."""

import asyncio
import zlib
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence

import msgspec

from skep.core.cluster.peer_sync import PeerSync
from skep.core.journal.lane_merge import Merge
from skep.core.log.segment_reader import SegmentReader
from skep.core.state.queue_state import PartitionState, QueueState
from skep.core.state.registry import Registry
from skep.errors import Conflict, Invalid, PositionMismatch, Unavailable
from skep.model.journal import Lanes, MessageRun, Range, SegmentPlace, Step
from skep.model.name import check_count
from skep.model.segment import DELETED, Segment
from skep.store.protocol import Store

MAX_RANGES = 10_000
SEGMENTS = 32
"""Segments read at a time, at least: up to four megabytes, within milliseconds."""
MAX_SHARES = 100_000
STEP, STEP_BYTES = 4096, 1 << 20
"""Messages that make a step, and bytes, if there are as many."""
MOST_SEGMENTS = 1024
PATIENCE = 8
"""How often everyone else has a turn between two steps, however many read."""


class PartitionFilter(msgspec.Struct, frozen=True, kw_only=True):
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


class JournalScan:
    def __init__(
        self, store: Store, registry: Registry, peer_sync: PeerSync, segment_reader: SegmentReader
    ) -> None:
        self._store = store
        self._registry = registry
        self._peer_sync = peer_sync
        self._segment_reader = segment_reader
        self._passing = asyncio.Lock()
        self._deleted: set[int] = set()
        """Partitions whose rows an operator deleted with SQL; numbers are never reused."""

    async def read(
        self,
        queue: str,
        number: int,
        ranges: Sequence[Range],
        some: PartitionFilter,
        *,
        in_order: bool = False,
    ) -> AsyncIterator[Step]:
        """What the ranges hold, range by range, in the order of the commits.

        ``in_order`` mixes the lanes, so that each partition comes in the order of its offsets. All
        that can be refused is refused before the first step.
        """
        some.check()
        _check_ranges(ranges, in_order=in_order)
        await self._peer_sync.complete()
        known = self._registry.queue(queue)
        if known.config.number != number:
            raise PositionMismatch(f"queue {queue!r} was deleted and made anew")
        heads = await self._store.heads(number)
        for asked in ranges:
            if asked.end > heads.get(asked.lane, 0):
                raise Conflict(
                    f"lane {asked.lane} of queue {queue!r} has {heads.get(asked.lane, 0)} messages "
                    f"and {asked.end} were asked for: the store is not in the state that the "
                    "position was taken from, such as after a restored backup"
                )
        if in_order and len(ranges) > 1:
            return self._mixed(known, ranges, some)
        return self._one_by_one(known, ranges, some)

    async def _one_by_one(
        self, queue: QueueState, ranges: Sequence[Range], some: PartitionFilter
    ) -> AsyncIterator[Step]:
        for asked in ranges:
            lane = _Lane(self._store, queue.config.number, asked.lane)
            at = asked.start
            while at < asked.end:
                segments = await lane.read(at)
                step = await self._step(queue, segments, Range(asked.lane, at, asked.end), some)
                at = step.lanes[asked.lane]
                yield step
                await self._let_others_pass()

    async def _mixed(
        self, queue: QueueState, ranges: Sequence[Range], some: PartitionFilter
    ) -> AsyncIterator[Step]:
        number = queue.config.number
        lanes = {asked.lane: _Lane(self._store, number, asked.lane) for asked in ranges}
        ends = {asked.lane: asked.end for asked in ranges}
        at = {asked.lane: asked.start for asked in ranges}
        async for portion in _portions(Merge(self._store, number, ranges).places()):
            runs: list[MessageRun] = []
            missing: list[Range] = []
            moved: Lanes = {}
            for lane, end in portion:
                rest = Range(lane, at[lane], min(end, ends[lane]))
                step = await self._step(queue, await lanes[lane].take(rest), rest, some, whole=True)
                runs += step.runs
                missing += step.missing
                moved |= step.lanes
                at |= step.lanes
            yield Step(runs=runs, missing=missing, lanes=moved)
            await self._let_others_pass()
        if left := [Range(lane, at[lane], end) for lane, end in ends.items() if at[lane] < end]:
            yield Step(runs=[], missing=left, lanes={each.lane: each.end for each in left})

    async def _let_others_pass(self) -> None:
        """Reading seldom waits for anything, so that a push would wait for many steps of it."""
        async with self._passing:
            for _ in range(PATIENCE):
                await asyncio.sleep(0)

    async def _step(
        self,
        queue: QueueState,
        segments: Sequence[Segment],
        rest: Range,
        some: PartitionFilter,
        *,
        whole: bool = False,
    ) -> Step:
        """What segments hold of a range.

        If there are none, or they are the ``whole`` of it, what is not there was removed.
        """
        runs: list[MessageRun] = []
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
            known = self._registry.find_partition(segment.partition)
            partition = known or await self._unheard_of(queue, segment.partition)
            if partition is None:
                # Somebody deleted its row by hand: its messages have no name to go by.
                missing.append(Range(rest.lane, start, end))
            elif some.has(partition):
                first = segment.start - segment.position
                runs += self._runs(partition, segment, first + start, first + end)
        if at < rest.end and (whole or not segments):
            missing.append(Range(rest.lane, at, rest.end))
            at = rest.end
        return Step(runs=runs, missing=missing, lanes={rest.lane: at})

    async def _unheard_of(self, queue: QueueState, number: int) -> PartitionState | None:
        """A partition that has messages and is not known here; None if the store has it no more."""
        if number in self._deleted:
            return None
        stored = await self._store.partitions(queue.config.number)
        found = next((each for each in stored if each.number == number), None)
        if not self._registry.is_known(queue):
            raise Unavailable(f"queue {queue.config.name!r} is being loaded again; try again")
        if found is None:
            self._deleted.add(number)
            return None
        self._registry.adopt(queue, found)
        return self._registry.partitions[number]

    def _runs(
        self, partition: PartitionState, segment: Segment, start: int, end: int
    ) -> Iterator[MessageRun]:
        """The messages ``[start, end)`` of a segment, in the clear, without deleted ones."""
        for low, high in _kept(segment, start, end):
            columns = segment.columns
            if high - low < segment.end - segment.start:
                columns = columns.cut(low - segment.start, high - segment.start)
            yield MessageRun(
                partition=partition.number,
                name=partition.name,
                start=low,
                created_at=segment.created_at,
                lane=segment.lane,
                position=segment.position + low - segment.start,
                count=high - low,
                columns=self._segment_reader.decrypted(partition, columns),
            )


class _Lane:
    """The segments of a lane, some more than are asked for at a time."""

    def __init__(self, store: Store, queue: int, lane: int) -> None:
        self._store = store
        self._queue = queue
        self._lane = lane
        self._limit = SEGMENTS
        self._ahead: deque[Segment] = deque()

    async def read(self, at: int) -> list[Segment]:
        """The next segments from a position on, as many as are worth a batch."""
        found = await self._store.read_journal(self._queue, self._lane, at, limit=self._limit)
        self._limit = _limit(found)
        return found

    async def take(self, asked: Range) -> list[Segment]:
        """All segments of a range, which begins where the one before it ended."""
        ahead, taken = self._ahead, list[Segment]()
        at = asked.start
        while at < asked.end:
            if not ahead:
                ahead.extend(await self.read(at))
            if not ahead or ahead[0].position >= asked.end:
                break
            taken.append(ahead[0])
            at = ahead[0].position + len(ahead[0].columns)
            if at <= asked.end:
                ahead.popleft()
        return taken


async def _portions(places: AsyncIterator[SegmentPlace]) -> AsyncIterator[list[tuple[int, int]]]:
    """How far to read in which lane next, enough of that for a step each time."""
    portion: list[tuple[int, int]] = []
    messages = size = 0
    async for place in places:
        lane, start, end = place.stands.lane, place.stands.start, place.stands.end
        if portion and portion[-1][0] == lane:
            portion.pop()
        portion.append((lane, end))
        messages += end - start
        size += place.size
        if messages >= STEP or size >= STEP_BYTES:
            yield portion
            portion, messages, size = [], 0, 0
    if portion:
        yield portion


def _check_ranges(ranges: Sequence[Range], *, in_order: bool) -> None:
    check_count("ranges", len(ranges), least=1, most=MAX_RANGES)
    for index, asked in enumerate(ranges):
        if not 0 <= asked.start <= asked.end < 1 << 63 or not 0 <= asked.lane < 1 << 31:
            raise Invalid(f"ranges[{index}]", "must be a lane, a start and an end behind it")
    if in_order and len({asked.lane for asked in ranges}) < len(ranges):
        raise Invalid("ranges", "must have each lane once to be read in order")


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
