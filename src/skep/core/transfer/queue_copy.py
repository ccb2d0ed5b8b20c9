"""Copies one queue, stage by stage. Each step is written with a mark of the progress.

Until the copy is complete the queue has a reserved name and no labels, so that clients cannot see
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
DEAD_LETTERS = 50
"""Dead letters in one step: each has its own payload."""
NO_LIMIT = 1 << 31

T = TypeVar("T")
After: TypeAlias = tuple[int, ...]
OnStep: TypeAlias = Callable[[int], None]
"""Called after each step with the number of messages in it."""
Steps: TypeAlias = AsyncIterator[tuple[BulkLoad, After]]


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """The progress of a queue; ``fingerprint`` shows whether the source has changed."""

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
    """The copy of a queue, which continues where its mark says."""

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

    async def run(self, on_step: OnStep) -> None:
        if self.mark.is_done:
            return
        for index, stage in enumerate(STAGES):
            if index < self.mark.stage:
                continue
            after = self.mark.after if index == self.mark.stage else ()
            async for load, reached in stage(self, after):
                await self._step(load, index, reached)
                on_step(_count(load.segments))
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

    # The stages. Each yields what to write, and the progress after it.

    async def partitions(self, after: After) -> Steps:
        partitions = await self._source.partitions(self._queue.number)
        for page, done in _pages(map(self._shift.partition, partitions), after, ROWS):
            yield BulkLoad(partitions=page), done

    async def segments(self, after: After) -> Steps:
        """In journal order; lanes and positions do not change."""
        first_lane, reached = after or (0, 0)
        for lane in sorted(await self._source.heads(self._queue.number)):
            position = reached if lane == first_lane else 0
            while lane >= first_lane:
                segments = await self._source.read_journal(
                    self._queue.number, lane, position, limit=SEGMENTS
                )
                if not segments:
                    break
                position = segments[-1].position + len(segments[-1].columns)
                moved = list(map(self._shift.segment, segments))
                yield BulkLoad(segments=moved, ids=await self._ids(moved)), (lane, position)

    async def _ids(self, moved: Iterable[Segment]) -> list[StoredId]:
        """The transaction ids of messages; the id of a replayed message belongs to its replay."""
        ids: list[StoredId] = []
        for segment in moved:
            chosen = [
                (text, segment.start + index)
                for index, text in enumerate(segment.columns.transaction_ids or ())
                if text is not None
            ]
            if chosen:
                number = segment.partition - self._shift.by
                offsets = await self._source.locate(number, [text for text, _ in chosen])
                ids += [
                    StoredId(segment.partition, text, offset)
                    for (text, offset), at in zip(chosen, offsets, strict=True)
                    if at == offset
                ]
        return ids

    async def groups(self, after: After) -> Steps:
        subscriptions = await self._source.subscriptions(self._queue.number)
        groups = {each.group: self._shift.subscription(each) for each in subscriptions}
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
        while page := await self._source.dead_letters(which, before=before, limit=DEAD_LETTERS):
            before = page[-1].number
            yield BulkLoad(dead_letters=list(map(self._shift.dead_letter, page))), (before,)

    async def events(self, after: After) -> Steps:
        partition, offset, number = after or (0, 0, 0)
        last = partition, offset, number
        while page := await self._source.all_events(self._queue.number, after=last, limit=ROWS):
            last = page[-1].partition, page[-1].offset, page[-1].number
            yield BulkLoad(events=list(map(self._shift.event, page))), last

    async def removals(self, after: After) -> Steps:
        removals = await self._source.removals(self._queue.number, limit=NO_LIMIT)
        # Each took a number in the source, so these numbers are reserved.
        numbers = count(self._shift.by + 1)
        lines = map(LoadedRemoval, numbers, map(self._shift.removal, removals[::-1]))
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
    """The rows after those that were copied before, in pages, each with the new progress."""
    done = after[0] if after else 0
    left = islice(rows, done, None)
    while page := list(islice(left, size)):
        done += len(page)
        yield page, (done,)


def _count(segments: Iterable[Segment]) -> int:
    return sum(len(segment.columns) for segment in segments)
