"""What moving queues from one store to another needs beside the protocol: a second way in.

``commit`` gives numbers, offsets and times of its own. A load says all of them itself, so that what
was so in one store is so in the other.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from skep.model.change import Applied
from skep.model.dead_letter import DeadLetter
from skep.model.entry import Entry
from skep.model.name import Instant, Offset
from skep.model.queue import Partition, Queue, Removal, Subscription
from skep.model.segment import Segment
from skep.model.trace import TraceEvent
from skep.store.protocol import Store, StoredConsumer


class StoredOutcome(NamedTuple):
    """What became of a change with an idempotency key."""

    name: str
    fingerprint: bytes
    outcome: Applied
    created_at: Instant


class StoredId(NamedTuple):
    """Where the message is whose id a producer chose."""

    partition: int
    chosen: str
    offset: Offset


class LoadedRemoval(NamedTuple):
    """A line of the history, with its place in it."""

    number: int
    removal: Removal


class LoadedConsumer(NamedTuple):
    subscription: Subscription
    consumer: StoredConsumer


class BulkLoad(msgspec.Struct, frozen=True, kw_only=True):
    """Rows as they are to be, written together or not at all.

    A queue of a number that is there gets what the load says of it. Entries and outcomes that are
    there stay as they are; ``marks`` are entries that replace what is there. No number up to
    ``reserved`` will be given by the store itself, and a load gives none.
    """

    reserved: int = 0
    queues: Sequence[Queue] = ()
    partitions: Sequence[Partition] = ()
    segments: Sequence[Segment] = ()
    ids: Sequence[StoredId] = ()
    heads: Mapping[tuple[int, int], int] = {}
    """Where the journal of a queue ends, by queue and lane."""
    subscriptions: Sequence[Subscription] = ()
    consumers: Sequence[LoadedConsumer] = ()
    dead_letters: Sequence[DeadLetter] = ()
    events: Sequence[TraceEvent] = ()
    removals: Sequence[LoadedRemoval] = ()
    outcomes: Sequence[StoredOutcome] = ()
    entries: Sequence[Entry] = ()
    marks: Sequence[Entry] = ()


class Transferable(Store, Protocol):
    """A store that queues can be moved out of, and into."""

    async def load(self, load: BulkLoad) -> None:
        """Write rows as they are; durable on return. Nobody else may use the store."""
        ...

    async def others(self) -> int:
        """How many other servers use the store, as far as can be seen."""
        ...

    async def last_number(self) -> int:
        """The highest number that was ever given, or reserved."""
        ...

    async def locate(self, partition: int, chosen: Sequence[str]) -> list[Offset | None]:
        """Where the messages with these producer-chosen ids are."""
        ...

    async def all_events(
        self, queue: int, *, after: tuple[int, Offset, int], limit: int
    ) -> list[TraceEvent]:
        """The trace events of a queue by partition, offset and number, behind one of them."""
        ...

    async def all_entries(self, *, after: tuple[str, str], limit: int) -> list[Entry]:
        """The entries of all spaces in an order of the store's own, behind space and key."""
        ...

    async def all_outcomes(self, *, after: str, limit: int) -> list[StoredOutcome]:
        """The outcomes of changes with a key in an order of the store's own, behind a key."""
        ...
