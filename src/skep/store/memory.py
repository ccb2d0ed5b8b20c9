"""Dictionaries: the reference for the suite, and what users' tests run on.

Nothing survives the process. Everything else is as the protocol says.
"""

import bisect
from collections.abc import Iterable, Sequence
from itertools import count, islice, takewhile
from operator import itemgetter
from pathlib import Path
from typing import NoReturn
from uuid import uuid4

import msgspec

from skep.errors import Invalid
from skep.model.change import Change, Commit, GiveUp, IdempotencyKey, Outcome
from skep.model.consumer import ConsumerState
from skep.model.dead_letter import DeadLetter, DeadLetterFilter
from skep.model.entry import Entry
from skep.model.journal import SegmentPlace, place_of
from skep.model.name import Instant, Offset
from skep.model.queue import Partition, Queue, Removal, Subscription
from skep.model.segment import Segment, until_enough
from skep.model.trace import TraceEvent, TraceName
from skep.store.clock import Clock, SystemClock
from skep.store.commit.evaluation import RecordedOutcome, evaluate
from skep.store.protocol import GivenUp, StoredConsumer, StoreStats, Truncation
from skep.store.single_server import SingleServer

_TRUNCATE_STEP = 100
_PURGE_STEP = 100


class MemoryStore(SingleServer):
    def __init__(self, *, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self._id = str(uuid4())
        self._numbers = count(1)
        self._queues: dict[int, Queue] = {}
        self._partitions: dict[int, dict[int, Partition]] = {}
        self._consumers: dict[tuple[int, int, str], ConsumerState] = {}
        self._subscriptions: dict[tuple[int, str], Subscription] = {}
        self._segments: dict[int, list[Segment]] = {}
        self._journal: dict[int, list[Segment]] = {}
        self._heads: dict[int, int] = {}
        self._transactions: dict[tuple[int, str], Offset] = {}
        self._dead_letters: dict[int, dict[int, DeadLetter]] = {}
        self._traces: list[TraceEvent] = []
        self._recorded: dict[str, RecordedOutcome] = {}
        self._entries: dict[tuple[str, str], Entry] = {}
        self._removals: dict[int, list[Removal]] = {}
        self._purging: list[tuple[int, int, list[str]]] = []
        """Partitions of deleted queues, each with its queue and the groups that this had."""

    async def commit(self, changes: Sequence[Change]) -> Commit:
        round_, outcomes = evaluate(self, changes, lane=self.lane, now=self.clock.now())
        segments = round_.segments()
        for segment in segments:
            self._segments[segment.partition].append(segment)
            self._journal[segment.queue].append(segment)
        for partition in round_.partitions():
            self._partitions[partition.queue][partition.number] = partition
        self._heads |= round_.heads
        self._consumers |= round_.consumers
        for number, ids in round_.transactions.items():
            self._transactions |= {(number, chosen): offset for chosen, offset in ids.items()}
        for queue, number in (*round_.removed, *round_.replaced):
            self._dead_letters[queue].pop(number, None)
        for letter in round_.dead_letters.values():
            self._dead_letters[letter.queue][letter.number] = letter
        self._traces += round_.traces
        self._recorded |= round_.recorded
        for place, entry in round_.entries.items():
            if entry is None:
                self._entries.pop(place, None)
            else:
                self._entries[place] = entry
        return Commit(outcomes, segments)

    # What a round sees.

    def queue_version(self, queue: int) -> int | None:
        known = self._queues.get(queue)
        return known.version if known else None

    def partition(self, queue: int, partition: int) -> Partition | None:
        return self._partitions.get(queue, {}).get(partition)

    def subscription(self, queue: int, group: str) -> Subscription | None:
        return self._subscriptions.get((queue, group))

    def consumer(self, queue: int, partition: int, group: str) -> ConsumerState | None:
        known = self._consumers.get((queue, partition, group))
        return known if queue in self._queues else None

    def find_offsets(self, partition: int, ids: Sequence[str]) -> list[Offset | None]:
        return [self._transactions.get((partition, chosen)) for chosen in ids]

    def segment(self, partition: int, offset: Offset) -> Segment | None:
        segments = self._segments.get(partition, [])
        index = bisect.bisect_right(segments, offset, key=lambda segment: segment.start) - 1
        if index < 0 or offset >= segments[index].end:
            return None
        return segments[index]

    def dead_letter(self, queue: int, number: int) -> DeadLetter | None:
        return self._dead_letters.get(queue, {}).get(number)

    def letter_of(self, letter: GiveUp) -> int | None:
        known = self._dead_letters.get(letter.queue, {}).values()
        message = letter.partition, letter.offset, letter.group
        same = (x.number for x in known if (x.partition, x.offset, x.group) == message)
        return next(same, None)

    def recorded(self, key: str) -> RecordedOutcome | None:
        return self._recorded.get(key)

    def entry_version(self, space: str, key: str) -> int:
        entry = self._entries.get((space, key))
        return entry.version if entry else 0

    def head(self, queue: int) -> int:
        return self._heads.get(queue, 0)

    pushed = head
    """There is one lane."""

    def next_number(self) -> int:
        return next(self._numbers)

    # The catalogue.

    async def put_queue(self, queue: Queue, *, replace: bool = True) -> Queue:
        for known in self._queues.values():
            if known.name == queue.name:
                if not replace:
                    return known
                queue = msgspec.structs.replace(
                    queue,
                    number=known.number,
                    created_at=known.created_at,
                    version=self.next_number(),
                )
                break
        else:
            queue = msgspec.structs.replace(
                queue,
                number=self.next_number(),
                created_at=self.clock.now(),
                version=self.next_number(),
            )
            self._partitions[queue.number] = {}
            self._journal[queue.number] = []
            self._dead_letters[queue.number] = {}
        self._queues[queue.number] = queue
        return queue

    async def delete_queue(self, queue: int) -> bool:
        existed = self._queues.pop(queue, None) is not None
        groups = [group for owner, group in self._subscriptions if owner == queue]
        for group in groups:
            del self._subscriptions[queue, group]
        self._purging += [(queue, number, groups) for number in self._partitions.pop(queue, {})]
        for rows in (self._journal, self._heads, self._dead_letters, self._removals):
            rows.pop(queue, None)
        return existed

    async def purge(self) -> bool:
        step = self._purging[-_PURGE_STEP:]
        del self._purging[-_PURGE_STEP:]
        for queue, partition, groups in step:
            for segment in self._segments.pop(partition):
                for chosen in segment.columns.transaction_ids or ():
                    self._transactions.pop((partition, chosen or ""), None)
            for group in groups:
                self._consumers.pop((queue, partition, group), None)
        gone = {partition for _, partition, _ in step}
        self._traces = [event for event in self._traces if event.partition not in gone]
        return bool(step)

    def _kept_traces(self) -> list[TraceEvent]:
        """Without those of deleted queues."""
        gone = {partition for _, partition, _ in self._purging}
        return [event for event in self._traces if event.partition not in gone]

    async def create_partitions(self, queue: int, names: Sequence[str]) -> list[Partition]:
        if queue not in self._queues:
            return []
        known = {p.name: p for p in self._partitions[queue].values()}
        for name in names:
            if name not in known:
                made = Partition(
                    number=self.next_number(), queue=queue, name=name, created_at=self.clock.now()
                )
                known[name] = self._partitions[queue][made.number] = made
                self._segments[made.number] = []
        return [known[name] for name in names]

    async def queues(self) -> list[Queue]:
        return list(self._queues.values())

    async def queue(self, number: int) -> Queue | None:
        return self._queues.get(number)

    async def partitions(
        self, queue: int, *, after: Partition | None = None, limit: int | None = None
    ) -> Iterable[Partition]:
        found = self._partitions.get(queue, {}).values()
        number = after.number if after else -1
        return list(islice((each for each in found if each.number > number), limit))

    async def find_partitions(self, queue: int, numbers: Sequence[int]) -> list[Partition]:
        found = (self.partition(queue, number) for number in numbers)
        return [partition for partition in found if partition is not None]

    async def consumers(
        self, queue: int, partitions: Sequence[int] | None = None
    ) -> Iterable[StoredConsumer]:
        return [
            StoredConsumer(partition, group, state)
            for (owner, partition, group), state in self._consumers.items()
            if owner == queue
            and queue in self._queues
            and (partitions is None or partition in partitions)
        ]

    async def group_states(
        self, queue: int, group: str, *, after: int = -1, limit: int
    ) -> Sequence[StoredConsumer]:
        found = [each for each in await self.consumers(queue) if each.group == group]
        behind = sorted((each for each in found if each.partition > after), key=itemgetter(0))
        return behind[:limit]

    async def subscriptions(self, queue: int) -> list[Subscription]:
        return [s for s in self._subscriptions.values() if s.queue == queue]

    async def subscribe(
        self, subscription: Subscription, consumers: Sequence[StoredConsumer]
    ) -> bool:
        place = subscription.queue, subscription.group
        if place in self._subscriptions or subscription.queue not in self._queues:
            return False
        for partition, group, state in consumers:
            self._consumers[subscription.queue, partition, group] = state
        self._subscriptions[place] = subscription
        return True

    async def delete_group(self, queue: int, group: str) -> None:
        self._subscriptions.pop((queue, group), None)
        for key in [k for k in self._consumers if k[0] == queue and k[2] == group]:
            del self._consumers[key]

    # Reading by position.

    async def read(
        self, partition: int, offset: Offset, *, messages: int, size: int
    ) -> list[Segment]:
        segments = self._segments.get(partition, [])
        index = bisect.bisect_right(segments, offset, key=lambda segment: segment.start) - 1
        if index < 0 or offset >= segments[index].end:
            index += 1
        return until_enough(segments[index:], offset, messages=messages, size=size)

    async def find_offset(self, partition: int, transaction_id: str) -> Offset | None:
        return self._transactions.get((partition, transaction_id))

    async def offset_at(self, partition: int, moment: Instant) -> Offset:
        segments = self._segments.get(partition, [])
        index = bisect.bisect_left(segments, moment, key=lambda segment: segment.created_at)
        if index < len(segments):
            return segments[index].start
        return segments[-1].end if segments else self._end(partition)

    async def find_trace(self, trace_id: bytes, *, limit: int) -> list[tuple[int, Offset]]:
        gone = {partition for _, partition, _ in self._purging}
        found = [
            (partition, segment.start + index)
            for partition, segments in sorted(self._segments.items())
            if partition not in gone
            for segment in segments
            for index, trace in enumerate(segment.columns.trace_ids or ())
            if trace == trace_id
        ]
        return found[:limit]

    # The journal.

    async def heads(self, queue: int) -> dict[int, int]:
        return {self.lane: self._heads[queue]} if queue in self._heads else {}

    async def read_journal(
        self, queue: int, lane: int, position: int, *, limit: int, backwards: bool = False
    ) -> list[Segment]:
        journal = self._journal.get(queue, []) if lane == self.lane else []
        index = bisect.bisect_left(journal, position, key=lambda segment: segment.position)
        if backwards:
            return journal[max(0, index - limit) : index][::-1]
        before = journal[index - 1] if index else None
        if before is not None and before.position + len(before.columns) > position:
            index -= 1
        return journal[index : index + limit]

    async def read_places(
        self, queue: int, lane: int, position: int, *, limit: int
    ) -> list[SegmentPlace]:
        segments = await self.read_journal(queue, lane, position, limit=limit)
        return [place_of(each, self.segment(each.partition, each.start - 1)) for each in segments]

    # Removing.

    async def truncate(
        self, queue: int, partition: int, before: Offset, *, kind: str
    ) -> Truncation:
        segments = self._segments.get(partition, []) if queue in self._queues else []
        gone = [segment for segment in segments[:_TRUNCATE_STEP] if segment.end <= before]
        removal = Removal(
            queue=queue,
            partition=partition,
            kind=kind,
            messages=sum(len(segment.columns) for segment in gone),
            executed_at=self.clock.now(),
        )
        if gone:
            self._drop(queue, partition, gone)
            await self.record_removal(removal)
        known = self.partition(queue, partition)
        start, first_at = (known.start, known.first_at) if known else (0, 0)
        return Truncation(removal.messages, start, first_at)

    async def delete_message(self, queue: int, partition: int, offset: Offset) -> bool:
        segment = self.segment(partition, offset)
        blanked = segment and segment.blank(offset)
        if segment is None or blanked is None or queue not in self._queues:
            return False
        if (chosen := segment.chosen_id(offset)) is not None:
            self._forget(partition, chosen, offset)
        self._traces = [e for e in self._traces if (e.partition, e.offset) != (partition, offset)]
        self._segments[partition] = [
            blanked if s is segment else s for s in self._segments[partition]
        ]
        self._journal[queue] = [blanked if s is segment else s for s in self._journal[queue]]
        return True

    async def removals(self, queue: int, *, limit: int) -> list[Removal]:
        return self._removals.get(queue, [])[::-1][:limit]

    async def record_removal(self, removal: Removal) -> None:
        if removal.queue in self._queues:
            self._removals.setdefault(removal.queue, []).append(removal)

    async def forget_removals(self, queue: int, before: Instant, *, limit: int) -> int:
        kept = self._removals.get(queue, [])
        old = sum(1 for _ in takewhile(lambda line: line.executed_at < before, kept[:limit]))
        del kept[:old]
        return old

    # Dead letters, traces, idempotency.

    async def dead_letters(
        self, which: DeadLetterFilter, *, before: int | None = None, limit: int
    ) -> list[DeadLetter]:
        letters = sorted(self._dead_letters.get(which.queue, {}).items(), reverse=True)
        found = (
            letter
            for number, letter in letters
            if (before is None or number < before) and which.matches(letter)
        )
        return [letter for letter, _ in zip(found, range(limit), strict=False)]

    async def count_dead_letters(self, which: DeadLetterFilter) -> int:
        return sum(map(which.matches, self._dead_letters.get(which.queue, {}).values()))

    async def find_dead_letter(self, queue: int, number: int) -> DeadLetter | None:
        return self.dead_letter(queue, number)

    async def given_up(self, partition: int, start: Offset, stop: Offset) -> list[GivenUp]:
        return sorted(
            GivenUp(letter.offset, letter.group, letter.number)
            for letters in self._dead_letters.values()
            for letter in letters.values()
            if letter.partition == partition and start <= letter.offset < stop
        )

    async def trace_events(self, partition: int, offset: Offset) -> list[TraceEvent]:
        return [e for e in self._traces if e.partition == partition and e.offset == offset]

    async def named_events(
        self, name: str, *, before: int | None = None, limit: int
    ) -> list[TraceEvent]:
        return [
            event
            for event in reversed(self._kept_traces())
            if name in event.names and (before is None or event.number < before)
        ][:limit]

    async def trace_names(self, *, after: str = "", limit: int) -> list[TraceName]:
        by_name: dict[str, list[TraceEvent]] = {}
        for event in self._kept_traces():
            for name in set(event.names):
                by_name.setdefault(name, []).append(event)
        return [
            TraceName(
                name=name,
                events=len(events),
                messages=len({(event.partition, event.offset) for event in events}),
                last_seen_at=max(event.created_at for event in events),
            )
            for name, events in sorted(by_name.items(), key=lambda pair: pair[0].encode())
            if name.encode() > after.encode()
        ][:limit]

    async def find_entries(self, space: str, wanted: Sequence[str]) -> list[Entry]:
        found = (self._entries.get((space, key)) for key in wanted)
        return [entry for entry in found if entry is not None]

    async def list_entries(
        self, space: str, *, prefix: str = "", after: str = "", limit: int
    ) -> list[Entry]:
        # In the order of the bytes, as every other store has it.
        found = sorted(
            (entry.key.encode(), entry)
            for place, entry in self._entries.items()
            if place[0] == space and entry.key.startswith(prefix)
        )
        return [entry for key, entry in found if key > after.encode()][:limit]

    async def find_outcome(self, key: IdempotencyKey) -> Outcome | None:
        recorded = self._recorded.get(key.name)
        return recorded.answer(key) if recorded else None

    async def forget_outcomes(self, before: Instant, *, limit: int) -> int:
        old = [key for key, kept in self._recorded.items() if kept.created_at < before][:limit]
        for key in old:
            del self._recorded[key]
        return len(old)

    # The whole.

    async def stats(self) -> StoreStats:
        return StoreStats(self._id, 0, sum(map(len, self._dead_letters.values())))

    async def backup(self, path: Path) -> NoReturn:
        raise Invalid("path", "a store in memory has no files to back up")

    async def close(self) -> None:
        pass

    def _end(self, partition: int) -> Offset:
        for partitions in self._partitions.values():
            if partition in partitions:
                return partitions[partition].end
        return 0

    def _forget(self, partition: int, chosen: str, offset: Offset) -> None:
        # A replayed dead letter may have taken the id over: then it is no longer this message's.
        if self._transactions.get((partition, chosen)) == offset:
            del self._transactions[partition, chosen]

    def _drop(self, queue: int, partition: int, gone: list[Segment]) -> None:
        rest = self._segments[partition][len(gone) :]
        self._segments[partition] = rest
        keep = {id(segment) for segment in gone}
        self._journal[queue] = [s for s in self._journal[queue] if id(s) not in keep]
        for segment in gone:
            for index, chosen in enumerate(segment.columns.transaction_ids or ()):
                if chosen is not None:
                    self._forget(partition, chosen, segment.start + index)
        start = gone[-1].end
        self._traces = [e for e in self._traces if e.partition != partition or e.offset >= start]
        self._partitions[queue][partition] = msgspec.structs.replace(
            self._partitions[queue][partition],
            start=start,
            first_at=rest[0].created_at if rest else 0,
        )
