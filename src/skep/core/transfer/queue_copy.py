"""How one queue moves: stage by stage, each step with the mark that says how far it is.

Until all of it is there the queue has a name that nobody uses and no labels, so that nobody finds
half of it.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from itertools import count, islice
from typing import TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from skep.core.transfer.renumber import Shift
from skep.model.dead_letter import DeadLetterFilter
from skep.model.entry import Entry
from skep.model.name import RESERVED
from skep.model.queue import Queue
from skep.model.segment import Segment
from skep.store.bulk_load import BulkLoad, LoadedConsumer, LoadedRemoval, StoredId, Transferable

SPACE = "transfer"
HIDDEN = f"{RESERVED}transfer."
SEGMENTS = 16
"""Segments in one step: about two megabytes, unless messages are large."""
ROWS = 500
LETTERS = 50
"""Each has a payload of its own."""
NO_LIMIT = 1 << 31

T = TypeVar("T")
After: TypeAlias = tuple[int, ...]
Told: TypeAlias = Callable[[int], None]
"""Called after each step with the number of messages in it."""
Steps: TypeAlias = AsyncIterator[tuple[BulkLoad, After]]


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """How far a queue is; ``fingerprint`` tells whether the source is as it was."""

    source: str
    fingerprint: bytes
    shift: int
    queue: int
    """Its number in the target."""
    stage: int = 0
    after: After = ()
    messages: int = 0
    dead_letters: int = 0

    @property
    def is_done(self) -> bool:
        return self.stage == DONE


def mark_entry(key: str, value: object) -> Entry:
    return Entry(space=SPACE, key=key, value=msgspec.msgpack.encode(value), version=0, updated_at=0)


class Copy:
    """A queue on its way, from where its mark says."""

    def __init__(
        self, source: Transferable, target: Transferable, queue: Queue, mark: Mark
    ) -> None:
        self._source = source
        self._target = target
        self._queue = queue
        self._shift = Shift(mark.shift)
        self.mark = mark
        self.name = queue.name
        self.is_new = mark.stage == 0 and mark.after == ()

    async def begin(self, reserved: int, *records: Entry) -> None:
        hidden = Queue(number=self.mark.queue, name=HIDDEN + self.name)
        marks = self._marks(self.mark, *records)
        await self._target.load(BulkLoad(reserved=reserved, queues=[hidden], marks=marks))

    async def run(self, told: Told) -> None:
        if self.mark.is_done:
            return
        for index, stage in enumerate(STAGES):
            if index < self.mark.stage:
                continue
            after = self.mark.after if index == self.mark.stage else ()
            async for load, reached in stage(self, after):
                await self._step(load, index, reached)
                told(_count(load.segments))
        await self._finish()

    async def _step(self, load: BulkLoad, stage: int, after: After) -> None:
        mark = replace(
            self.mark,
            stage=stage,
            after=after,
            messages=self.mark.messages + _count(load.segments),
            dead_letters=self.mark.dead_letters + len(load.dead_letters),
        )
        await self._target.load(replace(load, marks=self._marks(mark)))
        self.mark = mark

    async def _finish(self) -> None:
        mark = replace(self.mark, stage=DONE, after=())
        heads = await self._source.heads(self._queue.number)
        await self._target.load(
            BulkLoad(
                queues=[self._shift.queue(self._queue)],
                heads={(self.mark.queue, lane): head for lane, head in heads.items()},
                marks=self._marks(mark),
            )
        )
        self.mark = mark

    def _marks(self, mark: Mark, *records: Entry) -> list[Entry]:
        return [mark_entry(f"queue/{self.name}", mark), *records]

    # The stages. Each yields what to write, and where it is then.

    async def partitions(self, after: After) -> Steps:
        found = await self._source.partitions(self._queue.number)
        for page, done in _pages(map(self._shift.partition, found), after, ROWS):
            yield BulkLoad(partitions=page), done

    async def segments(self, after: After) -> Steps:
        """As they lie in the journal, whose lanes and positions stay."""
        begin, reached = after or (0, 0)
        for lane in sorted(await self._source.heads(self._queue.number)):
            position = reached if lane == begin else 0
            while lane >= begin:
                found = await self._source.read_journal(
                    self._queue.number, lane, position, limit=SEGMENTS
                )
                if not found:
                    break
                position = found[-1].position + len(found[-1].columns)
                moved = list(map(self._shift.segment, found))
                yield BulkLoad(segments=moved, ids=await self._ids(moved)), (lane, position)

    async def _ids(self, moved: Iterable[Segment]) -> list[StoredId]:
        """Ids that name these messages; one that was sent back names its new message only."""
        ids: list[StoredId] = []
        for segment in moved:
            chosen = [
                (text, segment.start + index)
                for index, text in enumerate(segment.columns.transaction_ids or ())
                if text is not None
            ]
            if chosen:
                number = segment.partition - self._shift.by
                known = await self._source.locate(number, [text for text, _ in chosen])
                ids += [
                    StoredId(segment.partition, text, offset)
                    for (text, offset), at in zip(chosen, known, strict=True)
                    if at == offset
                ]
        return ids

    async def groups(self, after: After) -> Steps:
        found = await self._source.subscriptions(self._queue.number)
        groups = {each.group: self._shift.subscription(each) for each in found}
        if not after:
            yield BulkLoad(subscriptions=list(groups.values())), (0,)
        consumers = (
            LoadedConsumer(groups[each.group], self._shift.consumer(each))
            for each in await self._source.consumers(self._queue.number)
            if each.group in groups
        )
        for page, done in _pages(consumers, after, ROWS):
            yield BulkLoad(consumers=page), done

    async def dead_letters(self, after: After) -> Steps:
        before = after[0] if after else None
        which = DeadLetterFilter(queue=self._queue.number)
        while found := await self._source.dead_letters(which, before=before, limit=LETTERS):
            before = found[-1].number
            yield BulkLoad(dead_letters=list(map(self._shift.dead_letter, found))), (before,)

    async def events(self, after: After) -> Steps:
        partition, offset, number = after or (0, 0, 0)
        place = partition, offset, number
        while found := await self._source.all_events(self._queue.number, after=place, limit=ROWS):
            last = found[-1]
            place = last.partition, last.offset, last.number
            yield BulkLoad(events=list(map(self._shift.event, found))), place

    async def removals(self, after: After) -> Steps:
        found = await self._source.removals(self._queue.number, limit=NO_LIMIT)
        # Each took a number in the source, so these are among those that are reserved.
        lines = map(LoadedRemoval, count(self._shift.by + 1), map(self._shift.removal, found[::-1]))
        for page, done in _pages(lines, after, ROWS):
            yield BulkLoad(removals=page), done


STAGES = (
    Copy.partitions,
    Copy.segments,
    Copy.groups,
    Copy.dead_letters,
    Copy.events,
    Copy.removals,
)
DONE = len(STAGES)


def _pages(rows: Iterable[T], after: After, size: int) -> Iterator[tuple[list[T], After]]:
    """Rows by the page, behind so many that are there already; each with how many are then."""
    done = after[0] if after else 0
    left = islice(rows, done, None)
    while page := list(islice(left, size)):
        done += len(page)
        yield page, (done,)


def _count(segments: Iterable[Segment]) -> int:
    return sum(len(segment.columns) for segment in segments)
