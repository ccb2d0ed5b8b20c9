"""Renumbers records: all numbers of a copied queue grow by the same amount.

So their order does not change, and an empty target takes them as they are.
"""

from collections.abc import Callable

from msgspec.structs import replace

from skep.core.transaction.stream_query import STATE, renumbered
from skep.model.change import Applied
from skep.model.dead_letter import DeadLetter
from skep.model.entry import Entry
from skep.model.queue import Partition, Queue, Removal, Subscription
from skep.model.segment import Segment
from skep.model.trace import TraceEvent
from skep.store.bulk_load import StoredOutcome
from skep.store.protocol import StoredConsumer


class Shift:
    def __init__(self, by: int) -> None:
        self.by = by

    def queue(self, queue: Queue) -> Queue:
        return replace(queue, number=queue.number + self.by, version=queue.version + self.by)

    def partition(self, partition: Partition) -> Partition:
        return replace(
            partition, number=partition.number + self.by, queue=partition.queue + self.by
        )

    def segment(self, segment: Segment) -> Segment:
        return replace(
            segment,
            queue=segment.queue + self.by,
            partition=segment.partition + self.by,
            columns=segment.columns.cut(0, len(segment.columns)),
        )

    def subscription(self, subscription: Subscription) -> Subscription:
        return replace(subscription, queue=subscription.queue + self.by)

    def consumer(self, consumer: StoredConsumer) -> StoredConsumer:
        return consumer._replace(partition=consumer.partition + self.by)

    def dead_letter(self, dead_letter: DeadLetter) -> DeadLetter:
        return replace(
            dead_letter,
            number=dead_letter.number + self.by,
            queue=dead_letter.queue + self.by,
            partition=dead_letter.partition + self.by,
        )

    def event(self, event: TraceEvent) -> TraceEvent:
        return replace(event, number=event.number + self.by, partition=event.partition + self.by)

    def removal(self, removal: Removal) -> Removal:
        return replace(
            removal, queue=removal.queue + self.by, partition=removal.partition + self.by
        )


Numbers = Callable[[int], int]
"""From the number of a partition to its number in the target."""


def shift_entry(entry: Entry, numbers: Numbers) -> Entry:
    key = renumbered(entry.key, numbers) if entry.space == STATE else entry.key
    return replace(entry, key=key)


def shift_outcome(stored: StoredOutcome, numbers: Numbers) -> StoredOutcome:
    appended = (
        replace(each, partition=numbers(each.partition)) for each in stored.outcome.appended
    )
    return stored._replace(outcome=Applied(tuple(appended)))
