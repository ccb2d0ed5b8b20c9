"""What the broker needs from a database, by role; ``Store`` is all roles."""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from skep.model.change import Change, Commit, IdempotencyKey, Outcome
from skep.model.consumer import ConsumerState
from skep.model.dead_letter import DeadLetter, DeadLetterFilter
from skep.model.entry import Entry
from skep.model.journal import SegmentPlace
from skep.model.name import Instant, Offset
from skep.model.outbox import OutboxRow
from skep.model.peer_event import PeerEvent
from skep.model.queue import Partition, Queue, Removal, Subscription
from skep.model.segment import Segment
from skep.model.trace import TraceEvent, TraceName
from skep.store.clock import Clock


class StoredConsumer(NamedTuple):
    partition: int
    group: str
    state: ConsumerState


class GivenUp(NamedTuple):
    """A message that a group gave up, by its offset, and the number of the dead letter."""

    offset: Offset
    group: str
    number: int


class Truncation(NamedTuple):
    """The number of messages that a call removed, and where the partition starts now."""

    messages: int
    start: Offset
    first_at: Instant


class StoreStats(NamedTuple):
    """Totals of a store that are cheap to read."""

    id: str
    bytes_on_disk: int
    dead_letters: int


class Gauge(NamedTuple):
    """A number that an operator watches."""

    name: str
    about: str
    value: int


class ClockStore(Protocol):
    @property
    def clock(self) -> Clock:
        """The time of the store, the same for every server that shares it."""
        ...


class LogStore(ClockStore, Protocol):
    """Segments: written by ``commit``, read by offset or by position in the journal."""

    @property
    def lane(self) -> int:
        """The track of the journal that this process commits to."""
        ...

    async def commit(self, changes: Sequence[Change]) -> Commit:
        """Apply each change wholly or not at all; all applied changes are durable on return.

        They are evaluated in the order given, each against the ones before it. Messages for
        one partition get consecutive offsets in that order. A change that meets damaged data is
        ``Unreadable``; the others are applied. Everything that could be read before the call is
        durable on return, too, even if all changes are empty or repetitions.
        """
        ...

    async def read(
        self, partition: int, offset: Offset, *, messages: int, size: int
    ) -> list[Segment]:
        """The segments from the one that holds ``offset`` on, in order.

        They end when they hold ``messages`` messages from ``offset`` on, or ``size`` bytes of
        payload. If ``offset`` was truncated they begin with the first segment that is left.
        """
        ...

    async def find_offset(self, partition: int, transaction_id: str) -> Offset | None:
        """The offset of the message with this producer-chosen id."""
        ...

    async def offset_at(self, partition: int, moment: Instant) -> Offset:
        """The first offset that was pushed at ``moment`` or later; the end if there is none."""
        ...

    async def heads(self, queue: int) -> dict[int, int]:
        """The number of messages ever committed to the queue, by lane."""
        ...

    async def read_journal(
        self, queue: int, lane: int, position: int, *, limit: int, backwards: bool = False
    ) -> list[Segment]:
        """Up to ``limit`` segments of a lane in commit order; truncated ones are left out.

        Forwards they begin with the one that holds ``position``, backwards with the one that
        holds the message before it.
        """
        ...

    async def read_places(
        self, queue: int, lane: int, position: int, *, limit: int
    ) -> list[SegmentPlace]:
        """The places of the segments that ``read_journal`` would return, without messages."""
        ...


class CatalogueStore(ClockStore, Protocol):
    """Queues, their partitions, and the groups that consume them."""

    async def put_queue(self, queue: Queue, *, replace: bool = True) -> Queue:
        """Create the queue or replace its configuration, by name; return it with its number.

        Without ``replace`` an existing queue stays as it is and is returned.
        """
        ...

    async def delete_queue(self, queue: int) -> bool:
        """Delete the queue and list its rows for ``purge``; False if it does not exist.

        On return its name is free, and no call returns the queue or its messages by number, name,
        trace or dead letter. The call takes the same time whatever the queue holds. Rows that are
        read by the number of a partition stay until they are purged.
        """
        ...

    async def create_partitions(self, queue: int, names: Sequence[str]) -> list[Partition]:
        """The partitions of these names, in the order given; missing ones are created.

        Durable with the first commit that follows. Empty if the queue does not exist.
        """
        ...

    async def queues(self) -> list[Queue]: ...

    async def queue(self, number: int) -> Queue | None: ...

    async def partitions(
        self, queue: int, *, after: Partition | None = None, limit: int | None = None
    ) -> Iterable[Partition]:
        """The partitions of a queue, oldest first: all, or up to ``limit`` after one."""
        ...

    async def find_partitions(self, queue: int, numbers: Sequence[int]) -> list[Partition]:
        """The partitions with these numbers that belong to the queue."""
        ...

    async def consumers(
        self, queue: int, partitions: Sequence[int] | None = None
    ) -> Iterable[StoredConsumer]:
        """The states of all groups of a queue, in all partitions or in the given ones."""
        ...

    async def group_states(
        self, queue: int, group: str, *, after: int = -1, limit: int
    ) -> Sequence[StoredConsumer]:
        """Up to ``limit`` states of one group, by partition number, after one."""
        ...

    async def subscriptions(self, queue: int) -> list[Subscription]: ...

    async def subscribe(
        self, subscription: Subscription, consumers: Sequence[StoredConsumer]
    ) -> bool:
        """Create a subscription and its first states; its ``id`` was never used before.

        False, and nothing is written, if the group is subscribed already or the queue does not
        exist. Other calls are served meanwhile, however many states there are.
        """
        ...

    async def delete_group(self, queue: int, group: str) -> None:
        """Delete the group's subscription and list its states for ``purge``.

        On return no call finds them, and a new group of the same name starts without them. The
        call takes the same time however many there are.
        """
        ...


class RetentionStore(Protocol):
    """How messages and the rows of deleted queues are removed."""

    async def truncate(
        self, queue: int, partition: int, before: Offset, *, kind: str
    ) -> Truncation:
        """Remove segments that end at ``before`` or earlier; record the removal as ``kind``.

        A call removes a bounded number. One that removes nothing returns 0 messages and is not
        recorded.
        """
        ...

    async def delete_message(self, queue: int, partition: int, offset: Offset) -> bool:
        """Redact one message; its offset stays. False if it does not exist."""
        ...

    async def removals(self, queue: int, *, limit: int) -> list[Removal]:
        """The retention history, newest first."""
        ...

    async def record_removal(self, removal: Removal) -> None:
        """Add a removal that ``truncate`` did not make; nothing if the queue does not exist."""
        ...

    async def forget_removals(self, queue: int, before: Instant, *, limit: int) -> int:
        """Delete up to ``limit`` removals older than ``before``, oldest first; return how many."""
        ...

    async def purge(self) -> bool:
        """Delete a bounded number of rows of deleted queues and groups; False if none are left.

        The list of them is durable: after a crash the next process continues.
        """
        ...


class DeadLetterStore(ClockStore, Protocol):
    async def dead_letters(
        self, which: DeadLetterFilter, *, before: int | None = None, limit: int
    ) -> list[DeadLetter]:
        """The newest first, below the number ``before``."""
        ...

    async def count_dead_letters(self, which: DeadLetterFilter) -> int: ...

    async def find_dead_letter(self, queue: int, number: int) -> DeadLetter | None: ...

    async def given_up(self, partition: int, start: Offset, stop: Offset) -> list[GivenUp]:
        """The messages of ``[start, stop)`` that are dead letters, by offset, then by group."""
        ...


class TraceStore(Protocol):
    async def find_trace(self, trace_id: bytes, *, limit: int) -> list[tuple[int, Offset]]:
        """The partitions and offsets of messages with this trace id, oldest partition first."""
        ...

    async def trace_events(self, partition: int, offset: Offset) -> list[TraceEvent]:
        """The events of a message, oldest first."""
        ...

    async def named_events(
        self, name: str, *, before: int | None = None, limit: int
    ) -> list[TraceEvent]:
        """The events with a name, newest first, below the number ``before``."""
        ...

    async def trace_names(self, *, after: str = "", limit: int) -> list[TraceName]: ...


class IdempotencyStore(Protocol):
    async def find_outcome(self, key: IdempotencyKey) -> Outcome | None:
        """The outcome of the change that was committed with this key."""
        ...

    async def forget_outcomes(self, before: Instant, *, limit: int) -> int:
        """Delete up to ``limit`` outcomes recorded before then; return how many."""
        ...


class EntryStore(ClockStore, Protocol):
    """Small values by space and key; written by ``commit``."""

    async def find_entries(self, space: str, wanted: Sequence[str]) -> list[Entry]:
        """The entries of these keys that exist, in the order of the keys."""
        ...

    async def list_entries(
        self, space: str, *, prefix: str = "", after: str = "", limit: int
    ) -> list[Entry]:
        """The entries whose keys begin with ``prefix`` and follow ``after``, in key order."""
        ...


class PeerStore(ClockStore, Protocol):
    """What other servers of the same store did, and which of them does a duty for all."""

    @property
    def shared(self) -> bool:
        """Whether other servers may use the store at the same time."""
        ...

    @property
    def timeline(self) -> str:
        """Changes if the store may have lost commits, as after a failover to a standby."""
        ...

    async def accept_timeline(self, timeline: str) -> None:
        """Continue from what is stored now; before this call commits are rejected."""
        ...

    @property
    def has_peers(self) -> bool:
        """Whether other servers may have committed something that was not read here yet."""
        ...

    async def start_peer_events(self) -> None:
        """Return from ``peer_events`` only events that follow this call."""
        ...

    async def peer_events(self) -> list[PeerEvent] | None:
        """The events of other servers that are not marked as applied, in order within a lane.

        None if some were deleted before they were read.
        """
        ...

    def mark_applied(self, events: Iterable[PeerEvent]) -> None: ...

    async def acquire_leadership(self, name: str, seconds: float) -> bool:
        """Whether this server is the one that does the named duty for the next ``seconds``."""
        ...


class OutboxStore(Protocol):
    async def outbox_rows(
        self, *, limit: int, size: int, payload_bytes: int, without: Collection[str] = ()
    ) -> list[OutboxRow]:
        """Rows that applications committed to the outbox, lowest number first.

        Up to ``limit`` rows or ``size`` bytes, but at least one, and none of the queues
        ``without``. A change that names a row in ``outbox`` deletes it.
        """
        ...

    async def reject_outbox_row(self, number: int, reason: str) -> None:
        """Return the row no more, and keep it with the reason for an operator."""
        ...


class Store(
    LogStore,
    CatalogueStore,
    RetentionStore,
    DeadLetterStore,
    TraceStore,
    IdempotencyStore,
    EntryStore,
    PeerStore,
    OutboxStore,
    Protocol,
):
    """Where queues are kept: a log that is read by position and written by ``commit``.

    Rules of every store, which ``tests/store`` checks on each of them:

    * what a method wrote is durable when it returns, and whole or absent after a crash;
    * in a partition time never runs back: no message is older than the one before it;
    * numbers of queues and partitions are never reused;
    * reads return what was committed; an unknown number is empty, not an error;
    * it raises only errors of ``skep.errors``.
    """

    @property
    def failure(self) -> str | None:
        """Why every write is rejected until the store is opened again; None if it is not."""
        ...

    async def stats(self) -> StoreStats: ...

    def gauges(self) -> Sequence[Gauge]:
        """Numbers of the database itself that show whether it keeps up."""
        ...

    async def backup(self, path: Path) -> None:
        """Write a consistent copy to ``path``, which must not exist, while work continues."""
        ...

    async def close(self) -> None: ...
