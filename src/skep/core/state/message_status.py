"""The status of messages, computed from the states of groups."""

from collections.abc import Collection

from skep.core.state.queue_state import GroupState, PartitionState
from skep.model import ranges
from skep.model.consumer import ConsumerState
from skep.model.name import Instant, Offset
from skep.model.ranges import Ranges
from skep.model.stats import Counts, MessageStatus


def is_done(consumer: ConsumerState, offset: Offset) -> bool:
    return offset < consumer.cursor or ranges.contains(consumer.acked, offset)


def is_held(consumer: ConsumerState, offset: Offset, now: Instant) -> bool:
    """Whether a live lease holds a message that is not done."""
    in_run = offset < consumer.run_end and not is_done(consumer, offset)
    return in_run and consumer.live_lease(now) is not None


def status_for(consumer: ConsumerState, offset: Offset, now: Instant) -> MessageStatus:
    """The status of a message for one group, without regard to dead letters."""
    if is_done(consumer, offset):
        return "completed"
    return "processing" if is_held(consumer, offset, now) else "pending"


def status_of(each: Collection[MessageStatus]) -> MessageStatus:
    """The status of a message for all groups together."""
    if "dead_letter" in each:
        return "dead_letter"
    if each and all(status == "completed" for status in each):
        return "completed"
    return "processing" if "processing" in each else "pending"


def count(partition: PartitionState, groups: Collection[GroupState], now: Instant) -> Counts:
    """The messages of a partition by their status, without dead letters."""
    return count_states(partition, [group.consumer(partition) for group in groups], now)


def count_states(partition: PartitionState, states: list[ConsumerState], now: Instant) -> Counts:
    """As ``count``, from the state of each group."""
    total = partition.end - partition.start
    if not states or not total:
        return Counts(total=total, pending=total)
    least = partition.end
    for state in states:
        if state.acked or state.lease or state.retries:
            return _count_exactly(states, partition, now)
        least = min(least, state.cursor)
    return Counts(total=total, pending=partition.end - least)


def _count_exactly(states: list[ConsumerState], partition: PartitionState, now: Instant) -> Counts:
    undone: Ranges = ()
    held: Ranges = ()
    failed: Ranges = ()
    for state in states:
        undone = ranges.union(undone, ranges.complement(state.acked, state.cursor, partition.end))
        run = ranges.complement(state.acked, state.cursor, state.run_end)
        if state.live_lease(now):
            held = ranges.union(held, run)
        elif state.retries:
            failed = ranges.union(failed, run)
    processing = ranges.size(held)
    return Counts(
        total=partition.end - partition.start,
        pending=ranges.size(undone) - processing,
        processing=processing,
        failed=ranges.size(ranges.union(held, failed)) - processing,
    )
