"""Scans ranges of the journal: the messages between two positions, and what was deleted."""

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
"""Messages and bytes of a step, if there are enough."""
MOST_SEGMENTS = 1024
PATIENCE = 8
"""Iterations of the event loop between two steps, however many readers there are."""


class PartitionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which partitions of a queue are read: those that match every given condition."""

    partitions: frozenset[str] | None = None
    prefix: str = ""
    share: tuple[int, int] | None = None
    """The index of a share and the number of shares, of about the same size."""

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
        partitions: PartitionFilter,
        *,
        in_order: bool = False,
    ) -> AsyncIterator[Step]:
        """The messages of ranges, range by range, in commit order.

        With ``in_order`` the lanes are merged, so that each partition comes in the order of its
        offsets. Every error of the request is raised before the first step.
        """
        partitions.check()
        _check_ranges(ranges, in_order=in_order)
        await self._peer_sync.complete()
        state = self._registry.queue(queue)
        if state.config.number != number:
            raise PositionMismatch(f"queue {queue!r} was deleted and recreated")
        heads = await self._store.heads(number)
        for requested in ranges:
            head = heads.get(requested.lane, 0)
            if requested.end > head:
                raise Conflict(
                    f"lane {requested.lane} of queue {queue!r} ends at {head}, before the "
                    f"requested end {requested.end}: the store is older than the position, such "
                    "as after a restored backup"
                )
        if in_order and len(ranges) > 1:
            return self._merged(state, ranges, partitions)
        return self._one_by_one(state, ranges, partitions)

    async def _one_by_one(
        self, queue: QueueState, ranges: Sequence[Range], partitions: PartitionFilter
    ) -> AsyncIterator[Step]:
        for requested in ranges:
            lane, at, end = requested.lane, requested.start, requested.end
            reader = _LaneReader(self._store, queue.config.number, lane)
            while at < end:
                segments = await reader.read(at)
                step = await self._step(queue, segments, Range(lane, at, end), partitions)
                at = step.lanes[lane]
                yield step
                await self._yield_to_others()

    async def _merged(
        self, queue: QueueState, ranges: Sequence[Range], partitions: PartitionFilter
    ) -> AsyncIterator[Step]:
        number = queue.config.number
        readers = {each.lane: _LaneReader(self._store, number, each.lane) for each in ranges}
        at = {each.lane: each.start for each in ranges}
        ends = {each.lane: each.end for each in ranges}
        async for portion in _portions(Merge(self._store, number, ranges).places()):
            runs: list[MessageRun] = []
            missing: list[Range] = []
            moved: Lanes = {}
            for lane, end in portion:
                rest = Range(lane, at[lane], min(end, ends[lane]))
                segments = await readers[lane].take(rest)
                step = await self._step(queue, segments, rest, partitions, whole=True)
                runs += step.runs
                missing += step.missing
                moved |= step.lanes
                at |= step.lanes
            yield Step(runs=runs, missing=missing, lanes=moved)
            await self._yield_to_others()
        if left := [Range(lane, at[lane], end) for lane, end in ends.items() if at[lane] < end]:
            yield Step(runs=[], missing=left, lanes={each.lane: each.end for each in left})

    async def _yield_to_others(self) -> None:
        """Let other tasks run: a scan rarely blocks, so a push would wait for many of its steps."""
        async with self._passing:
            for _ in range(PATIENCE):
                await asyncio.sleep(0)

    async def _step(
        self,
        queue: QueueState,
        segments: Sequence[Segment],
        rest: Range,
        partitions: PartitionFilter,
        *,
        whole: bool = False,
    ) -> Step:
        """The messages of segments that are in a range.

        If there are no segments, or they are the ``whole`` range, what is missing was deleted.
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
            partition = self._registry.find_partition(segment.partition)
            partition = partition or await self._load_partition(queue, segment.partition)
            if partition is None:
                # An operator deleted its row with SQL, so its messages have no partition name.
                missing.append(Range(rest.lane, start, end))
            elif partitions.has(partition):
                first = segment.start - segment.position
                runs += self._runs(partition, segment, first + start, first + end)
        if at < rest.end and (whole or not segments):
            missing.append(Range(rest.lane, at, rest.end))
            at = rest.end
        return Step(runs=runs, missing=missing, lanes={rest.lane: at})

    async def _load_partition(self, queue: QueueState, number: int) -> PartitionState | None:
        """A partition that is not in the registry; None if the store does not have it either."""
        if number in self._deleted:
            return None
        stored = await self._store.partitions(queue.config.number)
        partition = next((each for each in stored if each.number == number), None)
        if not self._registry.is_known(queue):
            raise Unavailable(f"queue {queue.config.name!r} is being reloaded; try again")
        if partition is None:
            self._deleted.add(number)
            return None
        self._registry.adopt(queue, partition)
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


class _LaneReader:
    """Reads the segments of a lane, some of them ahead."""

    def __init__(self, store: Store, queue: int, lane: int) -> None:
        self._store = store
        self._queue = queue
        self._lane = lane
        self._limit = SEGMENTS
        self._ahead: deque[Segment] = deque()

    async def read(self, at: int) -> list[Segment]:
        """The next segments from a position on, enough for a step."""
        segments = await self._store.read_journal(self._queue, self._lane, at, limit=self._limit)
        self._limit = _limit(segments)
        return segments

    async def take(self, rest: Range) -> list[Segment]:
        """All segments of a range, which starts where the previous one ended."""
        ahead, taken = self._ahead, list[Segment]()
        at = rest.start
        while at < rest.end:
            if not ahead:
                ahead.extend(await self.read(at))
            if not ahead or ahead[0].position >= rest.end:
                break
            taken.append(ahead[0])
            at = ahead[0].position + len(ahead[0].columns)
            if at <= rest.end:
                ahead.popleft()
        return taken


async def _portions(places: AsyncIterator[SegmentPlace]) -> AsyncIterator[list[tuple[int, int]]]:
    """The lanes and ends to read next, enough for a step each time."""
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
    for index, each in enumerate(ranges):
        if not 0 <= each.start <= each.end < 1 << 63 or not 0 <= each.lane < 1 << 31:
            raise Invalid(f"ranges[{index}]", "must be a lane, a start and an end after it")
    if in_order and len({each.lane for each in ranges}) < len(ranges):
        raise Invalid("ranges", "must have each lane once to be read in order")


def _limit(segments: Sequence[Segment]) -> int:
    """How many segments to read next: enough for a step, and not so many that it takes long."""
    messages = sum(len(segment.columns) for segment in segments)
    size = sum(segment.size for segment in segments)
    steps = max(messages / STEP, size / STEP_BYTES)
    return max(1, min(MOST_SEGMENTS, int(len(segments) / steps))) if steps else SEGMENTS


def _kept(segment: Segment, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The ranges of offsets between messages that were deleted one by one."""
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
