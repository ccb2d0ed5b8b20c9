"""The store protocol over dictionaries. Nothing survives the process."""

import bisect
from collections.abc import Iterable, Sequence
from itertools import count, islice
from operator import itemgetter
from pathlib import Path
from typing import NoReturn
from uuid import uuid4

import msgspec

from skep.errors import Invalid
from skep.model.change import Change, Commit
from skep.model.consumer import ConsumerState
from skep.model.entry import Entry
from skep.model.journal import SegmentPlace, place_of
from skep.model.name import Instant, Offset
from skep.model.queue import Partition, Queue, Removal, Subscription
from skep.model.segment import Segment, until_enough
from skep.store.clock import Clock, SystemClock
from skep.store.commit.evaluation import evaluate
from skep.store.memory.tables import (
    MemoryDeadLetterTable,
    MemoryEntryTable,
    MemoryIdempotencyTable,
    MemoryRemovalTable,
    MemoryTraceTable,
)
from skep.store.protocol import Gauge, StoredConsumer, StoreStats, Truncation
from skep.store.single_server import LANE, SingleServer

_STEP = 100
"""Segments truncated, and partitions purged, by one call."""


class MemoryStore:
    shared = False
    lane = LANE
    timeline = ""
    has_peers = False
    failure: str | None = None

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
        self._purging: list[tuple[int, int, list[str]]] = []
        """Partitions of deleted queues, each with its queue and the groups of that queue."""

        self._entries = MemoryEntryTable()
        self.entry_version = self._entries.entry_version

        letters = self._dead_letters = MemoryDeadLetterTable()
        self.dead_letters = letters.dead_letters
        self.count_dead_letters = letters.count_dead_letters
        self.find_dead_letter = letters.find_dead_letter
        self.given_up = letters.given_up
        self.dead_letter = letters.dead_letter
        self.letter_of = letters.letter_of

        traces = self._traces = MemoryTraceTable()
        self.trace_events = traces.trace_events
        self.named_events = traces.named_events
        self.trace_names = traces.trace_names

        outcomes = self._outcomes = MemoryIdempotencyTable()
        self.find_outcome = outcomes.find_outcome
        self.forget_outcomes = outcomes.forget_outcomes
        self.recorded = outcomes.recorded

        removals = self._removals = MemoryRemovalTable()
        self.removals = removals.removals
        self.record_removal = removals.record_removal
        self.forget_removals = removals.forget_removals

        single = SingleServer()
        self.accept_timeline = single.accept_timeline
        self.start_peer_events = single.start_peer_events
        self.peer_events = single.peer_events
        self.mark_applied = single.mark_applied
        self.acquire_leadership = single.acquire_leadership
        self.outbox_rows = single.outbox_rows
        self.reject_outbox_row = single.reject_outbox_row
        self.is_enqueued = single.is_enqueued

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
        self._dead_letters.apply(round_)
        self._traces.add(round_.traces)
        self._outcomes.apply(round_)
        self._entries.apply(round_)
        return Commit(outcomes, segments)

    # What a commit is evaluated against.

    def queue_version(self, queue: int) -> int | None:
        stored = self._queues.get(queue)
        return stored.version if stored else None

    def partition(self, queue: int, partition: int) -> Partition | None:
        return self._partitions.get(queue, {}).get(partition)

    def subscription(self, queue: int, group: str) -> Subscription | None:
        return self._subscriptions.get((queue, group))

    def consumer(self, queue: int, partition: int, group: str) -> ConsumerState | None:
        state = self._consumers.get((queue, partition, group))
        return state if queue in self._queues else None

    def find_offsets(self, partition: int, ids: Sequence[str]) -> list[Offset | None]:
        return [self._transactions.get((partition, chosen)) for chosen in ids]

    def segment(self, partition: int, offset: Offset) -> Segment | None:
        segments = self._segments.get(partition, [])
        index = _index_of(segments, offset)
        is_inside = index < len(segments) and segments[index].start <= offset
        return segments[index] if is_inside else None

    def head(self, queue: int) -> int:
        return self._heads.get(queue, 0)

    pushed = head  # there is one lane

    def next_number(self) -> int:
        return next(self._numbers)

    # The catalogue.

    async def put_queue(self, queue: Queue, *, replace: bool = True) -> Queue:
        existing = next((x for x in self._queues.values() if x.name == queue.name), None)
        if existing and not replace:
            return existing
        stored = msgspec.structs.replace(
            queue,
            number=existing.number if existing else self.next_number(),
            created_at=existing.created_at if existing else self.clock.now(),
            version=self.next_number(),
        )
        if existing is None:
            self._partitions[stored.number] = {}
            self._journal[stored.number] = []
            self._dead_letters.create_queue(stored.number)
            self._removals.create_queue(stored.number)
        self._queues[stored.number] = stored
        return stored

    async def delete_queue(self, queue: int) -> bool:
        existed = self._queues.pop(queue, None) is not None
        groups = [group for owner, group in self._subscriptions if owner == queue]
        for group in groups:
            del self._subscriptions[queue, group]
        partitions = self._partitions.pop(queue, {})
        self._purging += [(queue, number, groups) for number in partitions]
        self._traces.hide(partitions)
        self._journal.pop(queue, None)
        self._heads.pop(queue, None)
        self._dead_letters.delete_queue(queue)
        self._removals.delete_queue(queue)
        return existed

    async def purge(self) -> bool:
        step = self._purging[-_STEP:]
        del self._purging[-_STEP:]
        for queue, partition, groups in step:
            for segment in self._segments.pop(partition):
                for chosen in segment.columns.transaction_ids or ():
                    self._transactions.pop((partition, chosen or ""), None)
            for group in groups:
                self._consumers.pop((queue, partition, group), None)
        self._traces.purge({partition for _, partition, _ in step})
        return bool(step)

    async def create_partitions(self, queue: int, names: Sequence[str]) -> list[Partition]:
        if queue not in self._queues:
            return []
        by_name = {p.name: p for p in self._partitions[queue].values()}
        for name in names:
            if name not in by_name:
                partition = Partition(
                    number=self.next_number(), queue=queue, name=name, created_at=self.clock.now()
                )
                by_name[name] = self._partitions[queue][partition.number] = partition
                self._segments[partition.number] = []
        return [by_name[name] for name in names]

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
        states = await self.consumers(queue)
        rest = [each for each in states if each.group == group and each.partition > after]
        return sorted(rest, key=itemgetter(0))[:limit]

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
        rest = segments[_index_of(segments, offset) :]
        return until_enough(rest, offset, messages=messages, size=size)

    async def find_offset(self, partition: int, transaction_id: str) -> Offset | None:
        return self._transactions.get((partition, transaction_id))

    async def offset_at(self, partition: int, moment: Instant) -> Offset:
        segments = self._segments.get(partition, [])
        index = bisect.bisect_left(segments, moment, key=lambda segment: segment.created_at)
        if index < len(segments):
            return segments[index].start
        return segments[-1].end if segments else self._end(partition)

    async def find_trace(self, trace_id: bytes, *, limit: int) -> list[tuple[int, Offset]]:
        deleted = {partition for _, partition, _ in self._purging}
        addresses = [
            (partition, segment.start + index)
            for partition, segments in sorted(self._segments.items())
            if partition not in deleted
            for segment in segments
            for index, trace in enumerate(segment.columns.trace_ids or ())
            if trace == trace_id
        ]
        return addresses[:limit]

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
        if index and journal[index - 1].position + len(journal[index - 1].columns) > position:
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
        removed = [segment for segment in segments[:_STEP] if segment.end <= before]
        removal = Removal(
            queue=queue,
            partition=partition,
            kind=kind,
            messages=sum(len(segment.columns) for segment in removed),
            executed_at=self.clock.now(),
        )
        if removed:
            self._drop(queue, partition, removed)
            await self.record_removal(removal)
        rest = self.partition(queue, partition)
        start, first_at = (rest.start, rest.first_at) if rest else (0, 0)
        return Truncation(removal.messages, start, first_at)

    async def delete_message(self, queue: int, partition: int, offset: Offset) -> bool:
        segment = self.segment(partition, offset)
        redacted = segment and segment.blank(offset)
        if segment is None or redacted is None or queue not in self._queues:
            return False
        if (chosen := segment.chosen_id(offset)) is not None:
            self._forget(partition, chosen, offset)
        self._traces.delete(partition, offset, offset + 1)
        self._segments[partition] = [
            redacted if s is segment else s for s in self._segments[partition]
        ]
        self._journal[queue] = [redacted if s is segment else s for s in self._journal[queue]]
        return True

    # Entries.

    async def find_entries(self, space: str, wanted: Sequence[str]) -> list[Entry]:
        return self._entries.find(space, wanted)

    async def list_entries(
        self, space: str, *, prefix: str = "", after: str = "", limit: int
    ) -> list[Entry]:
        return self._entries.list(space, prefix=prefix, after=after)[:limit]

    # The store itself.

    def gauges(self) -> Sequence[Gauge]:
        return ()

    async def stats(self) -> StoreStats:
        return StoreStats(self._id, 0, self._dead_letters.count())

    async def backup(self, path: Path) -> NoReturn:
        raise Invalid("path", "a store in memory has no files to back up")

    async def close(self) -> None: ...

    def _end(self, partition: int) -> Offset:
        owners = (partitions.get(partition) for partitions in self._partitions.values())
        return next((owner.end for owner in owners if owner), 0)

    def _forget(self, partition: int, chosen: str, offset: Offset) -> None:
        # The id may belong to a replayed dead letter by now: then it stays.
        if self._transactions.get((partition, chosen)) == offset:
            del self._transactions[partition, chosen]

    def _drop(self, queue: int, partition: int, removed: list[Segment]) -> None:
        rest = self._segments[partition][len(removed) :]
        self._segments[partition] = rest
        positions = {segment.position for segment in removed}
        self._journal[queue] = [s for s in self._journal[queue] if s.position not in positions]
        for segment in removed:
            for index, chosen in enumerate(segment.columns.transaction_ids or ()):
                if chosen is not None:
                    self._forget(partition, chosen, segment.start + index)
        start = removed[-1].end
        self._traces.delete(partition, 0, start)
        self._partitions[queue][partition] = msgspec.structs.replace(
            self._partitions[queue][partition],
            start=start,
            first_at=rest[0].created_at if rest else 0,
        )


def _index_of(segments: Sequence[Segment], offset: Offset) -> int:
    """The index of the first segment that ends after ``offset``."""
    return bisect.bisect_right(segments, offset, key=lambda segment: segment.end)
