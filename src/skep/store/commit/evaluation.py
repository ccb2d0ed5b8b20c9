"""Evaluates the changes of one commit, each against what is stored and the changes before it.

A round reads stored state through a ``CommitView``, collects the effects of its changes, and hands
the store everything to write at once. It writes nothing itself: if the write fails, nothing has
changed.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

import msgspec
from msgspec.structs import replace

from skep.errors import Corrupted, Invalid
from skep.model.address import address_of
from skep.model.change import (
    Append,
    Appended,
    Applied,
    Capacity,
    Change,
    ConsumerUpdate,
    DeadLetterRemoval,
    EntryUpdate,
    Expired,
    GiveUp,
    Gone,
    IdempotencyKey,
    Outcome,
    Reconfigured,
    Reused,
    Stale,
    Unreadable,
)
from skep.model.consumer import ConsumerState
from skep.model.dead_letter import DeadLetter
from skep.model.entry import Entry
from skep.model.name import Instant, LeaseId, Offset
from skep.model.queue import Partition, Subscription
from skep.model.segment import DELETED, ENCRYPTED, Segment
from skep.model.trace import TraceEvent
from skep.store.commit.partition_tail import PartitionTail


class RecordedOutcome(msgspec.Struct, frozen=True, array_like=True):
    """The stored outcome of a change with an idempotency key."""

    fingerprint: bytes
    outcome: Applied
    created_at: Instant

    def answer(self, key: IdempotencyKey) -> Outcome:
        """The outcome of a repeated change with ``key``, which is not applied again."""
        if self.fingerprint != key.fingerprint:
            return Reused()
        return Applied(self.outcome.appended, repeated=True, memo=self.outcome.memo)


class CommitView(Protocol):
    """The stored state that a round reads."""

    def queue_version(self, queue: int) -> int | None: ...
    def partition(self, queue: int, partition: int) -> Partition | None: ...
    def subscription(self, queue: int, group: str) -> Subscription | None: ...
    def consumer(self, queue: int, partition: int, group: str) -> ConsumerState | None: ...
    def find_offsets(self, partition: int, ids: Sequence[str]) -> list[Offset | None]: ...
    def segment(self, partition: int, offset: Offset) -> Segment | None: ...
    def dead_letter(self, queue: int, number: int) -> DeadLetter | None: ...
    def letter_of(self, letter: GiveUp) -> int | None: ...
    def recorded(self, key: str) -> RecordedOutcome | None: ...
    def entry_version(self, space: str, key: str) -> int: ...
    def is_enqueued(self, number: int) -> bool: ...
    def head(self, queue: int) -> int: ...
    def pushed(self, queue: int) -> int: ...
    def next_number(self) -> int: ...


class CommitRound:
    def __init__(self, view: CommitView, *, lane: int, now: Instant) -> None:
        self._view = view
        self._lane = lane
        self._tails: dict[int, PartitionTail] = {}
        self.now = now
        self.consumers: dict[tuple[int, int, str], ConsumerState] = {}
        self.leases: dict[tuple[int, int, str], LeaseId] = {}
        """The live lease that a stored state must have, by queue, partition and group."""
        self.transactions: dict[int, dict[str, Offset]] = {}
        """The offsets of producer-chosen ids that this round appended, by partition."""
        self.dead_letters: dict[tuple[int, Offset, str], DeadLetter] = {}
        """By message and group; the newest replaces an earlier one."""
        self.replaced: set[tuple[int, int]] = set()
        self.removed: dict[tuple[int, int], DeadLetter] = {}
        self.traces: list[TraceEvent] = []
        self.recorded: dict[str, RecordedOutcome] = {}
        self.outbox: set[int] = set()
        """Rows of the outbox that were appended, and are deleted with the commit."""
        self.entries: dict[tuple[str, str], Entry | None] = {}
        self._stored_versions: dict[tuple[str, str], int] = {}
        self.heads: dict[int, int] = {}
        self._heads_before: dict[int, int] = {}
        self._added: Counter[int] | None = None
        """Messages that this round appended, by queue; counted once a change has a capacity."""

    def evaluate(self, change: Change) -> Outcome:
        refusal = self._refusal(change)
        if refusal is not None:
            return refusal
        outcome = Applied(tuple(map(self._append, change.appends)))
        if self._added is not None:
            _count(self._added, change.appends, outcome.appended)
        for update in change.consumers:
            place = update.queue, update.partition, update.group
            if update.lease and place not in self.consumers:
                self.leases[place] = update.lease
            self.consumers[place] = update.state
        self._note(change)
        if change.key:
            outcome = replace(outcome, memo=change.key.memo)
            self.recorded[change.key.name] = RecordedOutcome(
                change.key.fingerprint, outcome, self.now
            )
        return outcome

    def _note(self, change: Change) -> None:
        """Collect what a change carries besides messages and cursors."""
        for removal in change.removals:
            letter = self._view.dead_letter(removal.queue, removal.number)
            if letter:
                self.removed[removal.queue, removal.number] = letter
        for given_up in change.dead_letters:
            self._give_up(given_up)
        for event in change.traces:
            self._record(event)
        for entry in change.entries:
            self._put_entry(entry)
        if change.outbox:
            self.outbox.update(change.outbox)

    def segments(self) -> list[Segment]:
        """The segments of the appended messages, in the order of the journal."""
        made: list[Segment] = []
        for tail in self._tails.values():
            if tail.parts:
                queue = tail.partition.queue
                position = self.heads.get(queue, self._heads_before[queue])
                made += tail.segments(lane=self._lane, now=self.now, position=position)
                self.heads[queue] = position + tail.end - tail.partition.end
        return made

    def partitions(self) -> list[Partition]:
        """The partitions that messages were appended to, with their new ends."""
        return [tail.moved(self.now) for tail in self._tails.values() if tail.parts]

    def _refusal(self, change: Change) -> Outcome | None:
        if change.key:
            earlier = self.recorded.get(change.key.name) or self._view.recorded(change.key.name)
            if earlier:
                return earlier.answer(change.key)
        return self._refuse_states(change) or (None if self._is_as_read(change) else Stale())

    def _refuse_states(self, change: Change) -> Outcome | None:
        for basis in change.queues:
            version = self._view.queue_version(basis.queue)
            if version != basis.version:
                return Gone() if version is None else Reconfigured()
        for append in change.appends:
            if self._tail(append) is None:
                return Gone()
        for update in change.consumers:
            if refusal := self._refuse_update(update):
                return refusal
        return None

    def _is_as_read(self, change: Change) -> bool:
        for at in change.based_on:
            if self._entry_version(at.space, at.key) != at.version:
                return False
        if change.removals and not all(map(self._can_remove, change.removals)):
            return False
        if change.entries and not all(map(self._is_as_expected, change.entries)):
            return False
        if change.capacity and not all(map(self._has_room, change.capacity)):
            return False
        return not change.outbox or all(map(self._is_enqueued, change.outbox))

    def _refuse_update(self, update: ConsumerUpdate) -> Outcome | None:
        place = update.queue, update.partition, update.group
        current = self.consumers.get(place) or self._view.consumer(*place)
        version, token = update.expected
        if current is None:
            if version or token:
                return Stale()
        elif current.version != version or current.token != token:
            return Stale()
        subscription = self._view.subscription(update.queue, update.group)
        if subscription is None:
            return Gone()
        if subscription.id != update.subscription:
            return Stale()
        if current is None and self._view.partition(update.queue, update.partition) is None:
            return Gone()
        if update.lease is None:
            return None
        lease = current.live_lease(self.now) if current else None
        return None if lease and lease.id == update.lease else Expired()

    def _can_remove(self, removal: DeadLetterRemoval) -> bool:
        place = removal.queue, removal.number
        if place in self.removed or place in self.replaced:
            return False
        return self._view.dead_letter(*place) is not None

    def _is_as_expected(self, update: EntryUpdate) -> bool:
        if update.expected is None:
            return True
        return self._entry_version(update.space, update.key) == update.expected

    def _entry_version(self, space: str, key: str) -> int:
        place = space, key
        if place in self.entries:
            mine = self.entries[place]
            return mine.version if mine else 0
        version = self._stored_versions.get(place)
        if version is None:
            version = self._stored_versions[place] = self._view.entry_version(space, key)
        return version

    def _has_room(self, capacity: Capacity) -> bool:
        if self._added is None:
            self._added = Counter()
            for tail in self._tails.values():
                self._added[tail.partition.queue] += tail.end - tail.partition.end
        pushed = self._view.pushed(capacity.queue) + self._added[capacity.queue]
        return pushed + capacity.messages <= capacity.total

    def _is_enqueued(self, number: int) -> bool:
        return number not in self.outbox and self._view.is_enqueued(number)

    def _tail(self, append: Append) -> PartitionTail | None:
        tail = self._tails.get(append.partition)
        if tail is None:
            partition = self._view.partition(append.queue, append.partition)
            if partition is None:
                return None
            if append.queue not in self._heads_before:
                self._heads_before[append.queue] = self._view.head(append.queue)
            tail = self._tails[append.partition] = PartitionTail(partition, partition.end)
        return tail

    def _append(self, append: Append) -> Appended:
        tail = self._tails[append.partition]
        columns = append.columns
        if not columns:
            return Appended(append.partition, [])
        if columns.transaction_ids is None:
            return Appended(append.partition, tail.append(columns))
        return self._append_once(tail, append)

    def _append_once(self, tail: PartitionTail, append: Append) -> Appended:
        """Append the messages with new ids; the others are duplicates, with their offsets."""
        ids = append.columns.transaction_ids or ()
        mine = self.transactions.setdefault(append.partition, {})
        chosen_ids = [chosen for chosen in ids if chosen is not None]
        known = {} if append.replay else self._known(append.partition, chosen_ids, mine)
        if not known and len(set(chosen_ids)) == len(ids):
            # The usual case: all ids are new.
            offsets = tail.append(append.columns)
            mine.update(zip(chosen_ids, offsets, strict=True))
            return Appended(append.partition, offsets)
        offsets = []
        kept: list[int] = []
        for index, chosen in enumerate(ids):
            earlier = known.get(chosen) if chosen is not None else None
            if earlier is not None:
                offsets.append(earlier)
                continue
            offset = tail.end + len(kept)
            kept.append(index)
            offsets.append(offset)
            if chosen is not None:
                known[chosen] = mine[chosen] = offset
        if kept:
            tail.append(append.columns.pick(kept))
        duplicates = frozenset(range(len(ids))).difference(kept)
        return Appended(append.partition, offsets, duplicates)

    def _known(
        self, partition: int, chosen: list[str], mine: dict[str, Offset]
    ) -> dict[str, Offset]:
        """The offsets of ids that are in the store or in this round already."""
        found = self._view.find_offsets(partition, chosen)
        known: dict[str, Offset] = {}
        if found.count(None) != len(found):
            pairs = zip(chosen, found, strict=True)
            known = {each: offset for each, offset in pairs if offset is not None}
        if mine:
            known |= {each: mine[each] for each in chosen if each in mine}
        for each in [each for each in chosen if len(each) == 36 and each[14] == "8"]:
            offset = self._derived(partition, each)
            if offset is not None and each not in known:
                known[each] = offset
        return known

    def _derived(self, partition: int, chosen: str) -> Offset | None:
        """The offset of the message whose message id was pushed as a producer-chosen id.

        None if that message has a producer-chosen id itself.
        """
        try:
            number, offset = address_of(UUID(chosen))
        except (ValueError, Invalid):
            return None
        segment = self._segment(partition, offset) if number == partition else None
        return offset if segment and not segment.chosen_id(offset) else None

    def _record(self, event: TraceEvent) -> None:
        """Keep an event if its message exists; it is removed with the message."""
        if self._segment(event.partition, event.offset) is not None:
            number = self._view.next_number()
            self.traces.append(msgspec.structs.replace(event, number=number, created_at=self.now))

    def _put_entry(self, update: EntryUpdate) -> None:
        self.entries[update.space, update.key] = (
            None
            if update.value is None
            else Entry(
                space=update.space,
                key=update.key,
                value=update.value,
                version=self._view.next_number(),
                updated_at=self.now,
            )
        )

    def _give_up(self, letter: GiveUp) -> None:
        segment = self._segment(letter.partition, letter.offset)
        if segment is None:
            return
        if (earlier := self._view.letter_of(letter)) is not None:
            self.replaced.add((letter.queue, earlier))
        one = segment.columns.cut(letter.offset - segment.start, letter.offset - segment.start + 1)
        self.dead_letters[letter.partition, letter.offset, letter.group] = DeadLetter(
            number=self._view.next_number(),
            queue=letter.queue,
            partition=letter.partition,
            offset=letter.offset,
            group=letter.group,
            error=letter.error,
            attempts=letter.attempts,
            failed_at=self.now,
            payload=one.payloads[0],
            chosen_id=one.transaction_ids[0] if one.transaction_ids else None,
            trace=one.trace_ids[0] if one.trace_ids else None,
            producer=one.producers[0] if one.producers else None,
            created_at=segment.created_at,
            encrypted=bool(segment.flag(letter.offset) & ENCRYPTED),
        )

    def _segment(self, partition: int, offset: Offset) -> Segment | None:
        """The segment of a message that exists, stored or appended by this round."""
        tail = self._tails.get(partition)
        if tail is not None and offset >= tail.partition.end:
            # Their positions in the journal are not decided yet.
            made = tail.segments(lane=self._lane, now=self.now, position=0)
            return next((each for each in made if each.end > offset), None)
        segment = self._view.segment(partition, offset)
        return None if segment is None or segment.flag(offset) & DELETED else segment


def _count(added: Counter[int], appends: Sequence[Append], appended: Sequence[Appended]) -> None:
    for append, done in zip(appends, appended, strict=True):
        added[append.queue] += len(done.offsets) - len(done.duplicates)


def evaluate(
    view: CommitView, changes: Sequence[Change], *, lane: int, now: Instant
) -> tuple[CommitRound, list[Outcome]]:
    """Evaluate changes in order. One that meets damaged data is ``Unreadable``, alone.

    It may have left some of its effects in the round, so a new round starts without it.
    """
    unreadable: dict[int, Unreadable] = {}
    while True:
        round_ = CommitRound(view, lane=lane, now=now)
        outcomes: list[Outcome] = []
        try:
            for index, change in enumerate(changes):
                outcomes.append(unreadable.get(index) or round_.evaluate(change))
            return round_, outcomes
        except Corrupted as error:
            unreadable[len(outcomes)] = Unreadable(str(error))
