"""Reader groups: where each started to read the journal, and the position it reported last.

The reader's own checkpoint is authoritative. The record here shows its lag to others, and lets a
reader that fails before its first checkpoint start again at the same position.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from skep.core.aio import KeyedLocks, run_to_completion
from skep.core.journal.journal import Journal, Selection
from skep.core.log.committer import Committer
from skep.core.log.entry_table import EntryTable
from skep.core.state import quota
from skep.core.state.queue_state import PartitionState, QueueState
from skep.core.visibility import QueueFilter
from skep.errors import Conflict, Invalid, NotFound
from skep.model.change import Applied, Change
from skep.model.journal import Lanes, Position, behind
from skep.model.name import Instant, Offset, check_name, to_datetime
from skep.model.stats import GroupLag, LaneLag
from skep.store.protocol import Store

SPACE = "journal.readers"
MODE = "journal"
"""The subscription mode of reader groups in lists of groups."""
_STEP_BYTES = 4_000_000


class StartAtTime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Start at the first message pushed at ``at`` or later; ``otherwise`` applies if none was."""

    at: Instant
    otherwise: Literal["error", "latest"] = "error"


Start: TypeAlias = Literal["earliest", "latest", "group"] | Position | StartAtTime


class Reader(msgspec.Struct, frozen=True, kw_only=True):
    """A reader group. ``pin`` is its start, until it has moved on from there."""

    group: str
    since: Instant
    position: Position
    pin: Position | None

    def lanes(self, queue: QueueState) -> Lanes | None:
        """Its position in a queue; None if it does not read the queue."""
        position = self.position.queues.get(queue.config.name)
        if position is None or position.number != queue.config.number:
            return None
        return position.lanes


class ReaderGroups:
    def __init__(self, store: Store, journal: Journal, committer: Committer) -> None:
        self._store = store
        self._table = EntryTable(store, SPACE, Reader)
        self._journal = journal
        self._committer = committer
        self._changing = KeyedLocks[str]()
        self._creating = KeyedLocks[str | None]()

    async def begin(
        self, group: str, selection: Selection, start: Start, visible: QueueFilter
    ) -> tuple[Position, bool]:
        """The start position of a group, and whether it was decided by this call.

        Until the group has moved on, it starts at the same position again.
        """
        check_name("group", group)
        queues = await self._journal.select(selection, visible)
        popped = next((queue for queue in queues if group in queue.groups), None)
        if popped is not None:
            raise Conflict(f"group {group!r} pops from {popped.config.name!r}: choose another name")
        return await run_to_completion(self._begin(group, selection, queues, start))

    async def _begin(
        self, group: str, selection: Selection, queues: Sequence[QueueState], start: Start
    ) -> tuple[Position, bool]:
        limited = quota.limit_of("readers")
        # One at a time for each principal, so that the count is exact.
        creating = self._creating.of(limited[0].id if limited else group)
        async with creating, self._changing.of(group):
            while True:
                reader, version = await self._table.find(group)
                if reader and reader.pin and _is_for(reader.pin, selection, queues):
                    await self._committer.confirm()
                    return reader.pin, False
                if reader is None:
                    await self._check_quota()
                pin = await self._start(queues, start, reader)
                reader = Reader(group=group, since=self._store.clock.now(), position=pin, pin=pin)
                if await self._put(reader, version):
                    return pin, True

    async def _check_quota(self) -> None:
        """Raise ``QuotaExceeded`` if the caller may not have another reader of its queues."""
        if limited := quota.limit_of("readers"):
            caller, limit = limited
            existing = sum(
                any(map(caller.sees, reader.position.queues)) for reader in await self.all()
            )
            quota.check("readers", existing, 1, limit)

    async def _start(
        self, queues: Sequence[QueueState], start: Start, reader: Reader | None
    ) -> Position:
        first = await self._journal.first(queues)
        if start == "earliest" or (start == "group" and reader is None):
            return first
        heads = await self._journal.heads(queues)
        if start == "latest":
            return heads
        if isinstance(start, StartAtTime):
            position = await self._journal.at(queues, start.at)
            if start.otherwise == "error" and position == heads:
                raise Invalid("start.at", "is later than all messages")
            return position
        requested = start if isinstance(start, Position) else reader and reader.position
        assert isinstance(requested, Position)
        await self._journal.check(requested, queues)
        return requested.within(first)

    async def move(self, group: str, position: Position, *, stay: bool = False) -> Reader:
        """Store the position of a group: the reader has everything before it.

        With ``stay`` the group keeps its shown position; only its pinned start is released.
        """
        check_name("group", group)
        await self._journal.check(position, ())
        return await run_to_completion(self._move(group, position, stay=stay))

    async def _move(self, group: str, position: Position, *, stay: bool) -> Reader:
        async with self._changing.of(group):
            while True:
                reader, version = await self._table.find(group)
                if reader is None:
                    raise _no_reader(group)
                pin = reader.pin if reader.pin == position else None
                shown = reader.position if stay else position
                moved = replace(reader, position=shown, pin=pin)
                if await self._put(moved, version):
                    return moved

    async def forget(self, group: str) -> bool:
        """Delete a reader group; False if it does not exist."""
        reader = await self.find(group)
        if reader is not None:
            await self._committer.submit(Change(entries=(self._table.delete(group),)))
        return reader is not None

    async def find(self, group: str) -> Reader | None:
        """A reader group, if it exists."""
        reader, _ = await self._table.find(check_name("group", group))
        return reader

    async def get(self, group: str) -> Reader:
        """A reader group; raises ``NotFound`` if it does not exist."""
        reader = await self.find(group)
        if reader is None:
            raise _no_reader(group)
        return reader

    async def all(self) -> list[Reader]:
        """Every reader group, by name."""
        return await self._table.all()

    async def lags(self, queue: QueueState, readers: Sequence[Reader]) -> list[GroupLag]:
        """The lags of the readers that read a queue."""
        heads: Lanes | None = None
        lags = []
        for reader in readers:
            if (lanes := reader.lanes(queue)) is not None:
                heads = await self._store.heads(queue.config.number) if heads is None else heads
                lags.append(await self._lag(queue, reader, lanes, heads))
        return lags

    async def _lag(self, queue: QueueState, reader: Reader, lanes: Lanes, heads: Lanes) -> GroupLag:
        oldest = await self._oldest(queue.config.number, lanes, heads)
        return GroupLag(
            queue=queue.config.name,
            group=reader.group,
            subscription_mode=MODE,
            subscription_from=None,
            subscribed_at=to_datetime(reader.since),
            partitions=0,
            backlog=behind(heads, lanes),
            partitions_with_backlog=0,
            leased_partitions=0,
            members=0,
            oldest_at=None if oldest is None else to_datetime(oldest),
        )

    async def lanes(self, queue: QueueState, reader: Reader) -> list[LaneLag]:
        """The lag of a reader in each lane of a queue."""
        lanes = reader.lanes(queue) or {}
        heads = await self._store.heads(queue.config.number)
        return [
            await self._lane_lag(queue.config.number, lane, lanes.get(lane, 0), head)
            for lane, head in sorted(heads.items())
        ]

    async def _lane_lag(self, queue: int, lane: int, position: int, head: int) -> LaneLag:
        oldest = await self._oldest(queue, {lane: position}, {lane: head})
        return LaneLag(
            lane=lane,
            position=position,
            head=head,
            backlog=max(0, head - position),
            oldest_at=None if oldest is None else to_datetime(oldest),
        )

    async def _oldest(self, queue: int, lanes: Lanes, heads: Lanes) -> Instant | None:
        """When the oldest message was created that a reader has not read."""
        waiting = [
            segment.created_at
            for lane, head in heads.items()
            if head > lanes.get(lane, 0)
            for segment in await self._store.read_journal(queue, lane, lanes.get(lane, 0), limit=1)
        ]
        return min(waiting, default=None)

    async def passed(
        self, partition: PartitionState, before: Offset, readers: Sequence[Lanes]
    ) -> Offset:
        """The end of the messages before an offset that all readers have read.

        The segments of a partition may be in several lanes, so each is compared in its own lane.
        """
        at = partition.start
        while at < before:
            segments = await self._store.read(
                partition.number, at, messages=before - at, size=_STEP_BYTES
            )
            for segment in segments:
                slowest = min(lanes.get(segment.lane, 0) for lanes in readers)
                if segment.position + len(segment.columns) > slowest:
                    return min(before, segment.start)
                at = segment.end
            if not segments:
                break
        return before

    async def _put(self, reader: Reader, expected: int) -> bool:
        """Store a reader; False if another server wrote it meanwhile."""
        update = self._table.put(reader.group, reader, expected)
        outcome = await self._committer.submit(Change(entries=(update,)))
        return isinstance(outcome, Applied)


def _is_for(pin: Position, selection: Selection, queues: Sequence[QueueState]) -> bool:
    """Whether a pin is for these queues. A pattern may match more queues by now."""
    pinned = pin.numbers().items()
    selected = {queue.config.name: queue.config.number for queue in queues}.items()
    return pinned <= selected and (selection.pattern is not None or selected <= pinned)


def _no_reader(group: str) -> NotFound:
    return NotFound(f"group {group!r} has never read a journal")
