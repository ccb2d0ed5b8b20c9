"""Reader groups: where each began to read the journal, and its last reported position.

The authoritative position is the reader's own checkpoint. The copy here makes its lag visible, and
lets it begin at the same position again if it fails before its first checkpoint.
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
    """Messages pushed at an instant or later; ``otherwise`` applies if there are none."""

    at: Instant
    otherwise: Literal["error", "latest"] = "error"


Start: TypeAlias = Literal["earliest", "latest", "group"] | Position | StartAtTime


class Reader(msgspec.Struct, frozen=True, kw_only=True):
    """``pin`` is the start position, as long as the reader may have to begin there again."""

    group: str
    since: Instant
    position: Position
    pin: Position | None

    def lanes(self, queue: QueueState) -> Lanes | None:
        """Its position in a queue; None if it does not read the queue."""
        known = self.position.queues.get(queue.config.name)
        return known.lanes if known and known.number == queue.config.number else None


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
        """The start position of a group, and whether it was decided now.

        Until the group has moved on, the start position stays the same.
        """
        check_name("group", group)
        queues = await self._journal.select(selection, visible)
        taken = next((queue for queue in queues if group in queue.groups), None)
        if taken is not None:
            raise Conflict(f"group {group!r} pops from {taken.config.name!r}: choose another name")
        return await run_to_completion(self._begin(group, selection, queues, start))

    async def _begin(
        self, group: str, selection: Selection, queues: Sequence[QueueState], start: Start
    ) -> tuple[Position, bool]:
        limited = quota.limit_of("readers")
        # One at a time per principal, so that the quota is exact.
        creating = self._creating.of(limited[0].id if limited else group)
        async with creating, self._changing.of(group):
            while True:
                known, version = await self._table.find(group)
                if known and known.pin and _is_for(known.pin, selection, queues):
                    await self._committer.confirm()
                    return known.pin, False
                if known is None:
                    await self._check_quota()
                pin = await self._start(queues, start, known)
                reader = Reader(group=group, since=self._store.clock.now(), position=pin, pin=pin)
                if await self._put(reader, version):
                    return pin, True

    async def _check_quota(self) -> None:
        """Raise if the caller has as many reader groups as its quota allows."""
        if limited := quota.limit_of("readers"):
            caller, limit = limited
            existing = sum(
                any(map(caller.sees, reader.position.queues)) for reader in await self.all()
            )
            quota.check("readers", existing, 1, limit)

    async def _start(
        self, queues: Sequence[QueueState], start: Start, known: Reader | None
    ) -> Position:
        first = await self._journal.first(queues)
        if start == "earliest" or (start == "group" and known is None):
            return first
        heads = await self._journal.heads(queues)
        if start == "latest":
            return heads
        if isinstance(start, StartAtTime):
            found = await self._journal.at(queues, start.at)
            if start.otherwise == "error" and found == heads:
                raise Invalid("start.at", "is later than all messages")
            return found
        asked = start if isinstance(start, Position) else known and known.position
        assert isinstance(asked, Position)
        await self._journal.check(asked, queues)
        return asked.within(first)

    async def move(self, group: str, position: Position, *, stay: bool = False) -> Reader:
        """Record the position of a group: the reader has safely stored everything before it.

        With ``stay`` the shown position does not change; only the start position is released.
        """
        check_name("group", group)
        await self._journal.check(position, ())
        return await run_to_completion(self._move(group, position, stay=stay))

    async def _move(self, group: str, position: Position, *, stay: bool) -> Reader:
        async with self._changing.of(group):
            while True:
                known, version = await self._table.find(group)
                if known is None:
                    raise _no_reader(group)
                pin = known.pin if known.pin == position else None
                shown = known.position if stay else position
                moved = replace(known, position=shown, pin=pin)
                if await self._put(moved, version):
                    return moved

    async def forget(self, group: str) -> bool:
        """Delete a reader group; False if there was none."""
        known = await self.find(group)
        if known is not None:
            await self._committer.submit(Change(entries=(self._table.delete(group),)))
        return known is not None

    async def find(self, group: str) -> Reader | None:
        known, _ = await self._table.find(check_name("group", group))
        return known

    async def get(self, group: str) -> Reader:
        known = await self.find(group)
        if known is None:
            raise _no_reader(group)
        return known

    async def all(self) -> list[Reader]:
        """Every reader group, by name."""
        return await self._table.all()

    async def lags(self, queue: QueueState, readers: Sequence[Reader]) -> list[GroupLag]:
        """The lag of each of the readers that reads a queue."""
        heads: Lanes | None = None
        found = []
        for reader in readers:
            if (lanes := reader.lanes(queue)) is not None:
                heads = await self._store.heads(queue.config.number) if heads is None else heads
                found.append(await self._lag(queue, reader, lanes, heads))
        return found

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
        """The position of a reader in each lane of a queue."""
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
        """When the oldest message that a reader has not passed was pushed."""
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
        """The offset up to which all readers have passed the messages of a partition, at most
        ``before``.

        A partition's messages may be in several lanes, so the lane is read from each segment.
        """
        at = partition.start
        while at < before:
            segments = await self._store.read(
                partition.number, at, messages=before - at, size=_STEP_BYTES
            )
            for segment in segments:
                least = min(lanes.get(segment.lane, 0) for lanes in readers)
                if segment.position + len(segment.columns) > least:
                    return min(before, segment.start)
                at = segment.end
            if not segments:
                break
        return before

    # Stored records.

    async def _put(self, reader: Reader, expected: int) -> bool:
        """False if the record was changed concurrently."""
        update = self._table.put(reader.group, reader, expected)
        outcome = await self._committer.submit(Change(entries=(update,)))
        return isinstance(outcome, Applied)


def _is_for(pin: Position, selection: Selection, queues: Sequence[QueueState]) -> bool:
    """Whether a pin is for this selection. A pattern may match more queues by now."""
    pinned = pin.numbers().items()
    selected = {queue.config.name: queue.config.number for queue in queues}.items()
    return pinned <= selected and (selection.pattern is not None or selected <= pinned)


def _no_reader(group: str) -> NotFound:
    return NotFound(f"group {group!r} has never begun to read a journal")
