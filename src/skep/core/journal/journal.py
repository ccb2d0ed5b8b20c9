"""The journal: reads whole queues by position, whatever the number of their partitions.

A reader keeps its position itself, such as Spark in its checkpoint. The messages between two
positions are the same, in the same order, whenever they are read.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

import msgspec

from skep.core.cluster.peer_sync import PeerSync
from skep.core.journal.lane_merge import Merge
from skep.core.journal.name_pattern import check_pattern_length, matching
from skep.core.journal.scan import SEGMENTS, JournalScan
from skep.core.state.queue_state import QueueState
from skep.core.state.registry import Registry
from skep.core.state.waiters import ANY_QUEUE, Waiter, Waiters, WaitKey, journal_of
from skep.core.visibility import QueueFilter
from skep.errors import Invalid, PositionMismatch
from skep.model.journal import (
    Lanes,
    Position,
    QueuePosition,
    Range,
    SegmentPlace,
    behind,
    place_of,
    share_out,
)
from skep.model.name import MILLISECOND, RESERVED, Instant, check_count, check_name
from skep.store.protocol import Store

MAX_WAIT_MS = 60_000
_MOST = 1 << 62


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Queues by their names, or all whose names match a pattern."""

    queues: tuple[str, ...] | None = None
    pattern: str | None = None

    def check(self) -> None:
        if (self.queues is None) == (self.pattern is None):
            raise Invalid("queues", "either queues or pattern is required")
        if self.queues is not None and not self.queues:
            raise Invalid("queues", "must name at least one queue")
        for index, name in enumerate(self.queues or ()):
            check_name(f"queues[{index}]", name)
        if self.pattern is not None:
            check_pattern_length(self.pattern)


class Heads(msgspec.Struct, frozen=True, kw_only=True):
    """The heads of queues, their first kept positions, and where the next batch should end."""

    heads: Position
    first: Position
    at: Position | None
    """The position of the requested instant, if one was requested."""
    end: Position
    rows: int
    """Messages between the start and the end of the batch."""


class Journal:
    def __init__(
        self,
        store: Store,
        registry: Registry,
        waiters: Waiters,
        peer_sync: PeerSync,
        scan: JournalScan,
    ) -> None:
        self._store = store
        self._registry = registry
        self._waiters = waiters
        self._peer_sync = peer_sync
        self.read = scan.read
        self._store_id: str | None = None

    async def look(
        self,
        selection: Selection,
        visible: QueueFilter,
        *,
        at: Instant | None = None,
        after: Position | None = None,
        wait_ms: int = 0,
        max_rows: int | None = None,
        max_bytes: int | None = None,
    ) -> Heads:
        """The heads of queues; waits up to ``wait_ms`` for messages after ``after``."""
        check_count("wait", wait_ms, least=0, most=MAX_WAIT_MS)
        for field, maximum in (("max_rows", max_rows), ("max_bytes", max_bytes)):
            if maximum is not None:
                check_count(field, maximum, least=1, most=_MOST)
        queues = await self.select(selection, visible)
        if after is not None:
            await self.check(after, queues)
            if wait_ms:
                queues = await self._wait(selection, visible, after, wait_ms)
        heads, first = await self.heads(queues), await self.first(queues)
        start = _with_new(after, first)
        end = await self._end(start, heads, max_rows, max_bytes)
        return Heads(
            heads=heads,
            first=first,
            at=None if at is None else await self.at(queues, at),
            end=end,
            rows=_between(start, end),
        )

    async def select(self, selection: Selection, visible: QueueFilter) -> Sequence[QueueState]:
        """The queues of a selection, by name; queues that are named must exist.

        Includes queues that another server has just created or recreated.
        """
        self._registry.check_open()
        selection.check()
        await self._peer_sync.complete()
        if selection.queues is not None:
            return [self._registry.queue(name) for name in sorted(set(selection.queues))]
        queues = dict(self._registry.queues)
        names = sorted(name for name in queues if visible(name) and not name.startswith(RESERVED))
        return [queues[name] for name in await matching(selection.pattern or "", names)]

    def _candidates(self, selection: Selection) -> list[QueueState | None]:
        """The queues that a selection may choose from."""
        queues = self._registry.queues
        return [queues.get(name) for name in selection.queues or queues]

    async def check(self, position: Position, queues: Iterable[QueueState]) -> None:
        """Raise ``PositionMismatch`` for another store, or for a queue that was recreated."""
        if position.store != await self._id():
            raise PositionMismatch("the position belongs to another store")
        for queue in queues:
            read = position.queues.get(queue.config.name)
            if read is not None and read.number != queue.config.number:
                raise PositionMismatch(f"queue {queue.config.name!r} was deleted and recreated")

    # Positions.

    async def heads(self, queues: Iterable[QueueState]) -> Position:
        return await self._position(queues, self._store.heads)

    async def heads_of(self, position: Position) -> Position:
        """The heads of the queues of a position that still exist."""
        await self._peer_sync.complete()
        names = [name for name in position.queues if name in self._registry.queues]
        return await self.heads([self._registry.queues[name] for name in names])

    async def first(self, queues: Iterable[QueueState]) -> Position:
        """The first kept position of each lane."""
        return await self._position(queues, self._first)

    async def at(self, queues: Iterable[QueueState], moment: Instant) -> Position:
        """The position of the first kept messages that were pushed at ``moment`` or later."""

        async def lanes(queue: int) -> Lanes:
            heads = await self._store.heads(queue)
            return {lane: await self._at(queue, lane, heads[lane], moment) for lane in heads}

        return await self._position(queues, lanes)

    async def _position(
        self, queues: Iterable[QueueState], lanes: Callable[[int], Awaitable[Lanes]]
    ) -> Position:
        return Position(
            store=await self._id(),
            queues={
                queue.config.name: QueuePosition(
                    number=queue.config.number, lanes=await lanes(queue.config.number)
                )
                for queue in queues
            },
        )

    async def _first(self, queue: int) -> Lanes:
        heads = await self._store.heads(queue)
        return {lane: await self._kept(queue, lane, head) for lane, head in heads.items()}

    async def _kept(self, queue: int, lane: int, head: int) -> int:
        segments = await self._store.read_journal(queue, lane, 0, limit=1)
        return segments[0].position if segments else head

    async def _at(self, queue: int, lane: int, head: int, moment: Instant) -> int:
        """Bisects the lane: its commits are in the order of their times."""
        low, high = await self._kept(queue, lane, head), head
        while low < high:
            middle = (low + high) // 2
            segments = await self._store.read_journal(queue, lane, middle, limit=1)
            if segments and segments[0].created_at < moment:
                low = segments[0].position + len(segments[0].columns)
            else:
                high = middle
        return low

    async def _id(self) -> str:
        if self._store_id is None:
            self._store_id = (await self._store.stats()).id
        return self._store_id

    # Batches.

    async def _end(
        self, start: Position, heads: Position, max_rows: int | None, max_bytes: int | None
    ) -> Position:
        """Where a batch of at most ``max_rows`` messages and ``max_bytes`` bytes ends."""
        if max_rows is None and max_bytes is None:
            return heads
        waiting = {name: _between_lanes(start, name, each) for name, each in heads.queues.items()}
        taken = waiting if max_rows is None else share_out(waiting, max_rows)
        total = sum(taken.values())
        queues = {}
        for name, queue in heads.queues.items():
            rows = taken.get(name, 0)
            size = max_bytes * rows // total if max_bytes is not None and total else None
            begun = {lane: _lane(start, name, lane) for lane in queue.lanes}
            lanes = await self._cut(queue, begun, rows, size)
            queues[name] = QueuePosition(number=queue.number, lanes=lanes)
        return Position(store=start.store, queues=queues)

    async def _cut(self, heads: QueuePosition, start: Lanes, rows: int, size: int | None) -> Lanes:
        """Where a batch of one queue ends, so that it has no gap in any partition."""
        waiting = [
            Range(lane, start[lane], head)
            for lane, head in heads.lanes.items()
            if head > start[lane]
        ]
        if size is None and rows >= behind(heads.lanes, start):
            return start | {each.lane: each.end for each in waiting}
        if size is None and len(waiting) == 1:
            # The other lanes have nothing new.
            return start | {waiting[0].lane: waiting[0].start + rows}
        ends = dict(start)
        left = size
        async for place in self._places(heads.number, waiting):
            if left is not None:
                if ends != start and place.size > left:
                    return ends
                left -= place.size
            lane = place.stands.lane
            end = min(place.stands.end, heads.lanes[lane], ends[lane] + rows)
            rows -= end - ends[lane]
            ends[lane] = end
            if not rows:
                return ends
        # Everything that is left was deleted.
        return start | {each.lane: each.end for each in waiting}

    async def _places(self, queue: int, ranges: Sequence[Range]) -> AsyncIterator[SegmentPlace]:
        """The places of segments, each after the earlier ones of its partition."""
        if len(ranges) > 1:
            async for place in Merge(self._store, queue, ranges).places():
                yield place
            return
        for each in ranges:
            at = each.start
            while segments := await self._store.read_journal(queue, each.lane, at, limit=SEGMENTS):
                for segment in segments:
                    at = segment.position + len(segment.columns)
                    yield place_of(segment, None)

    # Waiting.

    async def _wait(
        self, selection: Selection, visible: QueueFilter, after: Position, wait_ms: int
    ) -> Sequence[QueueState]:
        """The queues of a selection, once they have messages after ``after`` or time is up."""
        until = self._store.clock.now() + wait_ms * MILLISECOND
        waiters, waiter = self._waiters, Waiter()
        while True:
            candidates = self._candidates(selection)
            queues = await self.select(selection, visible)
            grown = [queue.grown for queue in queues]
            is_over = self._store.clock.now() >= until
            if _between(after, await self.heads(queues)) or is_over or waiters.closed:
                return queues
            is_same = candidates == self._candidates(selection)
            if not is_same or grown != [queue.grown for queue in queues]:
                continue  # something changed while the store was read
            keys: list[WaitKey] = [journal_of(queue.config.number) for queue in queues]
            if selection.pattern is not None:
                keys.append(ANY_QUEUE)
            await waiters.wait(waiter, keys, until)


def _lane(position: Position, queue: str, lane: int) -> int:
    read = position.queues.get(queue)
    return read.lanes.get(lane, 0) if read else 0


def _between(start: Position, end: Position) -> int:
    """How many messages are between two positions."""
    return sum(_between_lanes(start, name, queue) for name, queue in end.queues.items())


def _between_lanes(start: Position, name: str, end: QueuePosition) -> int:
    return behind(end.lanes, start.queues[name].lanes if name in start.queues else {})


def _with_new(after: Position | None, first: Position) -> Position:
    """Where a batch starts: a queue that is new to the reader is read from its beginning."""
    if after is None:
        return first
    return Position(store=first.store, queues=first.queues | after.queues)
