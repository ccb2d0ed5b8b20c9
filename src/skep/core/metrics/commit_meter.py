"""Counts what commits did: messages, operations, latencies."""

from collections.abc import Mapping, Sequence

from skep.core.metrics.counters import QueueCounters
from skep.core.metrics.latency_window import LatencyWindow
from skep.core.rules import lease as leases
from skep.core.rules.latency import UNKNOWN, completed
from skep.core.state.lease_table import LeaseTable
from skep.core.state.queue_state import GroupState, PartitionState
from skep.core.state.registry import Registry
from skep.model import ranges
from skep.model.change import Applied, Change, Commit, ConsumerUpdate, GiveUp
from skep.model.consumer import ConsumerState
from skep.model.name import RESERVED, Offset
from skep.model.ranges import Ranges
from skep.model.tally import Tally
from skep.store.clock import Clock

_NEW = ConsumerState()


class CommitMeter:
    """Counts every commit, before the catalogue applies it: the difference to the state before.

    So a message counts once, whether a push, a transaction or a replay appended it.
    """

    def __init__(self, clock: Clock, registry: Registry, lease_table: LeaseTable) -> None:
        self._clock = clock
        self._registry = registry
        self._lease_table = lease_table
        self.metrics = QueueCounters(clock)
        self.latencies = LatencyWindow(clock)
        self._now = clock.now()
        self._tallies: dict[int, Tally] = {}
        """Where this commit counts, by queue."""
        self.letters: dict[int, int] = {}
        """Dead letters by queue number, of the queues that were counted."""
        self.letter_changes = 0
        """How often any of these has changed."""

    def count(self, changes: list[Change], commit: Commit) -> None:
        """Count a commit that is not applied to the catalogue yet."""
        self._now = self._clock.now()
        self.metrics.begin(self._now)
        self.latencies.begin(self._now)
        self.metrics.keep_only(self._registry.queues)
        self._tallies.clear()
        for segment in commit.segments:
            if tally := self._tally(segment.queue, segment.partition):
                tally.pushed += len(segment.columns.payloads)
        states: dict[tuple[int, str], ConsumerState] = {}
        for change, outcome in zip(changes, commit.outcomes, strict=True):
            if type(outcome) is Applied and not outcome.repeated:
                self._count_change(change, states)

    def _count_change(self, change: Change, states: dict[tuple[int, str], ConsumerState]) -> None:
        if change.appends:
            for queue, partition in {each.queue: each.partition for each in change.appends}.items():
                if tally := self._tally(queue, partition):
                    tally.pushes += 1
        dead = _by_place(change.dead_letters) if change.dead_letters else {}
        for update in change.consumers:
            self._count_update(update, states, dead)
        for given_up in change.dead_letters:
            self.forget_dead_letters(given_up.queue)
            if tally := self._tally(given_up.queue, given_up.partition):
                tally.dead_letters += 1
        for removal in change.removals:
            self.forget_dead_letters(removal.queue)

    def _count_update(
        self,
        update: ConsumerUpdate,
        states: dict[tuple[int, str], ConsumerState],
        dead: Mapping[tuple[int, str], Sequence[Offset]],
    ) -> None:
        """Count what one update did; ``states`` are those that the same commit made before."""
        partition = self._registry.partitions.get(update.partition)
        group = partition and partition.queue.groups.get(update.group)
        if not partition or not group:
            return
        place = update.partition, update.group
        before = states.get(place) or group.consumers.get(update.partition, _NEW)
        states[place] = update.state
        popped, acked, failed = _moved(before, update)
        if not (popped or acked or failed):
            return
        tally = self._tally_of(partition)
        if tally is None:
            return
        tally.popped += popped
        tally.acked += acked
        tally.failed += failed
        tally.pops += bool(popped)
        tally.acks += bool(acked or failed)
        if popped and update.state.lease:
            tally.note_lag(max(0, self._now - update.state.oldest_at))
        if acked and update.lease:
            lost = ranges.from_offsets(dead.get(place, ()))
            self._time(group, partition, before, update.state, lost)

    def _time(
        self,
        group: GroupState,
        partition: PartitionState,
        before: ConsumerState,
        after: ConsumerState,
        dead: Ranges,
    ) -> None:
        """Count how long the messages took that an ack completed.

        Only the server that delivered them knows how old they are; others do not count them.
        """
        if before.lease is None:
            return
        ages = self._lease_table.ages(before.lease.id, (group, partition))
        if ages is UNKNOWN:
            return
        before = leases.from_start(before, partition.start)
        sketch = self.latencies.of(partition.queue.config.name, group.name)
        for bucket, messages in completed(ages, before, after, dead, self._now):
            sketch[bucket] = sketch.get(bucket, 0) + messages

    def forget_dead_letters(self, queue: int) -> None:
        self.letters.pop(queue, None)
        self.letter_changes += 1

    def _tally(self, queue: int, partition: int) -> Tally | None:
        """Where to count what happens in a partition; None if it was deleted."""
        tally = self._tallies.get(queue)
        if tally is None:
            known = self._registry.partitions.get(partition)
            tally = self._tally_of(known) if known else None
            if tally:
                self._tallies[queue] = tally
        return tally

    def _tally_of(self, partition: PartitionState) -> Tally | None:
        name = partition.queue.config.name
        # A buffered message counts when it enters its own queue.
        return None if name.startswith(RESERVED) else self.metrics.of(name)


def _moved(before: ConsumerState, update: ConsumerUpdate) -> tuple[int, int, int]:
    """How many messages an update handed out, found done, and sent back to be tried again."""
    after = update.state
    acked = max(0, after.messages_consumed - before.messages_consumed)
    if after.lease and (before.lease is None or before.lease.id != after.lease.id):
        return _run(after), acked, 0
    if after.retries > before.retries:
        return 0, acked, _run(after)
    # Acknowledged without ever having been leased: it was when it was popped.
    return (0 if update.lease else acked), acked, 0


def _by_place(letters: Sequence[GiveUp]) -> dict[tuple[int, str], list[Offset]]:
    """The offsets that were given up in each partition, by each group."""
    found: dict[tuple[int, str], list[Offset]] = {}
    for letter in letters:
        found.setdefault((letter.partition, letter.group), []).append(letter.offset)
    return found


def _run(consumer: ConsumerState) -> int:
    """How many messages of a run are not done."""
    done = ranges.overlap(consumer.acked, consumer.cursor, consumer.run_end)
    return max(0, consumer.run_end - consumer.cursor - done)
