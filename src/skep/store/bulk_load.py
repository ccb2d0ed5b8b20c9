"""What copying queues between stores needs besides the protocol: rows with their own numbers.

``commit`` assigns numbers, offsets and times. A bulk load contains them, so that the copy has the
same ones.
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
    """The outcome of a change with an idempotency key."""

    name: str
    fingerprint: bytes
    outcome: Applied
    created_at: Instant


class StoredId(NamedTuple):
    """The offset of a message with a producer-chosen id."""

    partition: int
    chosen: str
    offset: Offset


class LoadedRemoval(NamedTuple):
    """A line of the retention history, with its number."""

    number: int
    removal: Removal


class LoadedConsumer(NamedTuple):
    subscription: Subscription
    consumer: StoredConsumer


class BulkLoad(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that are written together or not at all.

    A queue replaces the stored one of the same number. Stored entries and outcomes are kept;
    ``marks`` are entries that replace stored ones. After the load the store assigns no number up
    to ``reserved``.
    """

    reserved: int = 0
    queues: Sequence[Queue] = ()
    partitions: Sequence[Partition] = ()
    segments: Sequence[Segment] = ()
    ids: Sequence[StoredId] = ()
    heads: Mapping[tuple[int, int], int] = {}
    """The end of the journal, by queue and lane."""
    subscriptions: Sequence[Subscription] = ()
    consumers: Sequence[LoadedConsumer] = ()
    dead_letters: Sequence[DeadLetter] = ()
    events: Sequence[TraceEvent] = ()
    removals: Sequence[LoadedRemoval] = ()
    outcomes: Sequence[StoredOutcome] = ()
    entries: Sequence[Entry] = ()
    marks: Sequence[Entry] = ()


class Transferable(Store, Protocol):
    """A store that queues can be copied from, and to."""

    async def load(self, load: BulkLoad) -> None:
        """Write rows unchanged; durable on return. No other server may use the store meanwhile."""
        ...

    async def others(self) -> int:
        """The number of other servers that use the store, as far as the store knows."""
        ...

    async def last_number(self) -> int:
        """The highest number that was ever assigned or reserved."""
        ...

    async def locate(self, partition: int, chosen: Sequence[str]) -> list[Offset | None]:
        """The offsets of the messages with these producer-chosen ids."""
        ...

    async def all_events(
        self, queue: int, *, after: tuple[int, Offset, int], limit: int
    ) -> list[TraceEvent]:
        """The trace events of a queue by partition, offset and number, after one of them."""
        ...

    async def all_entries(self, *, after: tuple[str, str], limit: int) -> list[Entry]:
        """The entries of all spaces in an order of the store's own, after a space and key."""
        ...

    async def all_outcomes(self, *, after: str, limit: int) -> list[StoredOutcome]:
        """The outcomes of changes with a key in an order of the store's own, after a key."""
        ...
