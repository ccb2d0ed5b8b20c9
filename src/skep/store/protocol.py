"""What the broker needs from a database, and nothing else."""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from skep.model.change import Change, Commit, IdempotencyKey, Outcome
from skep.model.consumer import ConsumerState
from skep.model.dead_letter import DeadLetter, DeadLetterFilter
from skep.model.entry import Entry
from skep.model.journal import SegmentPlace
from skep.model.name import Instant, Offset
from skep.model.outbox import Enqueued
from skep.model.peer_event import News
from skep.model.queue import Partition, Queue, Removal, Subscription
from skep.model.segment import Segment
from skep.model.trace import TraceEvent, TraceName
from skep.store.clock import Clock


class StoredConsumer(NamedTuple):
    partition: int
    group: str
    state: ConsumerState


class GivenUp(NamedTuple):
    """That a group gave the message at an offset up, and under which number it lies."""

    offset: Offset
    group: str
    number: int


class Truncation(NamedTuple):
    """How many messages were removed, and where the partition starts now, whoever moved it."""

    messages: int
    start: Offset
    first_at: Instant


class StoreStats(NamedTuple):
    """What a store can say about itself at once."""

    id: str
    bytes_on_disk: int
    dead_letters: int


class Gauge(NamedTuple):
    """A number that an operator watches."""

    name: str
    about: str
    value: int


class Store(Protocol):
    """Where queues are kept: a log that is read by position and written by ``commit``.

    Rules every store obeys, and ``tests/store`` checks on each of them:

    * what a method wrote is durable when it returns, and whole or absent after a crash;
    * the time is the store's ``clock``, one for every server that shares the store;
    * in a partition it never runs back: no message is older than the one before it;
    * numbers of queues and partitions are never used again;
    * reading gives what was committed; an unknown number is empty, not an error;
    * it raises only what is in ``skep.errors``.
    """

    clock: Clock
    shared: bool
    """Whether other servers may use it at the same time: then there is news of them."""
    lane: int
    """The track of the journal that this process commits through."""

    @property
    def failure(self) -> str | None:
        """Why nothing will be written until the store is opened again; None while it can."""
        ...

    async def commit(self, changes: Sequence[Change]) -> Commit:
        """Apply each change wholly or not at all; all that were applied are durable on return.

        They are judged in the order given, each seeing the ones before it. Messages for
        one partition get consecutive offsets in that order. One that meets damaged data is
        ``Unreadable``, and the others go on. What could be read before the call is durable on
        return, too, even if all changes are empty or repetitions.
        """
        ...

    # The catalogue.

    async def put_queue(self, queue: Queue, *, replace: bool = True) -> Queue:
        """Create the queue or replace its configuration, by name; return it with its number.

        Without ``replace`` one that exists stays as it is.
        """
        ...

    async def delete_queue(self, queue: int) -> bool:
        """Delete the queue and list its rows for ``purge``; False if there is none.

        On return it is gone for good: nothing finds it or what it held by its number, its name, a
        trace or a dead letter, and its name is free. How long that takes does not depend on what
        it holds. Rows that are asked for by the number of a partition stay until they are purged.
        """
        ...

    async def purge(self) -> bool:
        """Remove a bounded number of rows of deleted queues and groups; False if there are none.

        The list is durable: after a crash the next process goes on.
        """
        ...

    async def create_partitions(self, queue: int, names: Sequence[str]) -> list[Partition]:
        """The partitions of these names, in the order given, made where there was none.

        Durable with the first commit that follows. Empty if the queue does not exist.
        """
        ...

    async def queues(self) -> list[Queue]: ...

    async def queue(self, number: int) -> Queue | None: ...

    async def partitions(
        self, queue: int, *, after: Partition | None = None, limit: int | None = None
    ) -> Iterable[Partition]:
        """The partitions of a queue, oldest first: all, or up to ``limit`` behind one."""
        ...

    async def find_partitions(self, queue: int, numbers: Sequence[int]) -> list[Partition]:
        """Those of the partitions with these numbers that the queue has."""
        ...

    async def consumers(
        self, queue: int, partitions: Sequence[int] | None = None
    ) -> Iterable[StoredConsumer]:
        """The states of the groups of a queue, in all partitions or in some."""
        ...

    async def group_states(
        self, queue: int, group: str, *, after: int = -1, limit: int
    ) -> Sequence[StoredConsumer]:
        """States of one group of a queue, by the number of the partition, behind one."""
        ...

    async def subscriptions(self, queue: int) -> list[Subscription]: ...

    async def subscribe(
        self, subscription: Subscription, consumers: Sequence[StoredConsumer]
    ) -> bool:
        """Record a first contact and the cursors that follow; ``id`` was never used before.

        False, and nothing, if there was one before or the queue does not exist. Other calls go on
        meanwhile, however many cursors there are.
        """
        ...

    async def delete_group(self, queue: int, group: str) -> None:
        """Delete the group's subscription and list its states for ``purge``.

        On return nothing finds them, and a group of the same name starts without them. How long
        that takes does not depend on how many there are.
        """
        ...

    # Reading by position.

    async def read(
        self, partition: int, offset: Offset, *, messages: int, size: int
    ) -> list[Segment]:
        """The segments that hold ``offset`` and what follows, in order.

        They go on until they hold ``messages`` messages from ``offset`` on, or ``size``
        bytes of payload. If ``offset`` is no longer kept they begin at the first that is.
        """
        ...

    async def find_offset(self, partition: int, transaction_id: str) -> Offset | None:
        """Where the message with this producer-chosen id is."""
        ...

    async def offset_at(self, partition: int, moment: Instant) -> Offset:
        """The first offset that was pushed at ``moment`` or later; the end if there is none."""
        ...

    async def find_trace(self, trace_id: bytes, *, limit: int) -> list[tuple[int, Offset]]:
        """The addresses of messages with this trace id, oldest partition first."""
        ...

    # The journal.

    async def heads(self, queue: int) -> dict[int, int]:
        """How many messages were ever committed to the queue, by lane."""
        ...

    async def read_journal(
        self, queue: int, lane: int, position: int, *, limit: int, backwards: bool = False
    ) -> list[Segment]:
        """Up to ``limit`` segments of a lane in the order of commits.

        Forwards they begin with the one that holds ``position``, backwards with the one that
        holds the message before it. What retention removed is left out.
        """
        ...

    async def read_places(
        self, queue: int, lane: int, position: int, *, limit: int
    ) -> list[SegmentPlace]:
        """Where the segments stand that ``read_journal`` would give, without their messages."""
        ...

    # News.

    @property
    def history(self) -> str:
        """Names the course that events took.

        It changes if the store may have gone back to an earlier state, as a standby has that
        took over and had not heard of everything.
        """
        ...

    async def accept_history(self, history: str) -> None:
        """Go on from what is stored now; until then nothing is committed."""
        ...

    @property
    def has_peers(self) -> bool:
        """Whether other servers may have committed something that is not known here."""
        ...

    async def begin_news(self) -> None:
        """From here on events of other servers count; what they did before is stored."""
        ...

    async def news(self) -> list[News] | None:
        """What other servers published and was not heard of; of each lane in order.

        None if some of it is gone, because it was not asked for in time.
        """
        ...

    def heard(self, news: Iterable[News]) -> None:
        """These events are known now."""
        ...

    async def take_duty(self, name: str, seconds: float) -> bool:
        """Whether this server is the one to do something, for the next so many seconds."""
        ...

    # The outbox.

    async def enqueued(
        self, *, limit: int, size: int, payload_bytes: int, without: Collection[str] = ()
    ) -> list[Enqueued]:
        """What applications pushed in transactions that are committed, lowest number first.

        Up to ``limit`` rows or ``size`` bytes, but at least one, and none of the queues
        ``without``. A change that names a row in ``outbox`` takes it away.
        """
        ...

    async def refuse_enqueued(self, number: int, reason: str) -> None:
        """Keep a row from being read again, and let an operator see why."""
        ...

    # Removing.

    async def truncate(
        self, queue: int, partition: int, before: Offset, *, kind: str
    ) -> Truncation:
        """Remove the segments that lie wholly before ``before``; record it as ``kind``.

        A call removes a bounded number; 0 messages means that nothing is left to remove, and is
        not recorded.
        """
        ...

    async def delete_message(self, queue: int, partition: int, offset: Offset) -> bool:
        """Blank one message for good; its offset stays. False if it is not there."""
        ...

    async def removals(self, queue: int, *, limit: int) -> list[Removal]:
        """The retention history, newest first."""
        ...

    async def record_removal(self, removal: Removal) -> None:
        """Write a line of history for messages that left by another way than ``truncate``.

        Nothing if the queue does not exist.
        """
        ...

    async def forget_removals(self, queue: int, before: Instant, *, limit: int) -> int:
        """Drop lines of a queue's history from before then, oldest first; return how many."""
        ...

    # Dead letters, traces, idempotency.

    async def dead_letters(
        self, which: DeadLetterFilter, *, before: int | None = None, limit: int
    ) -> list[DeadLetter]:
        """Newest first, below the number ``before``."""
        ...

    async def count_dead_letters(self, which: DeadLetterFilter) -> int: ...

    async def find_dead_letter(self, queue: int, number: int) -> DeadLetter | None: ...

    async def given_up(self, partition: int, start: Offset, stop: Offset) -> list[GivenUp]:
        """Which messages of ``[start, stop)`` are dead letters, in order, then by group."""
        ...

    async def trace_events(self, partition: int, offset: Offset) -> list[TraceEvent]:
        """The events of a message, oldest first."""
        ...

    async def named_events(
        self, name: str, *, before: int | None = None, limit: int
    ) -> list[TraceEvent]:
        """The events that carry a name, newest first, below the number ``before``."""
        ...

    async def trace_names(self, *, after: str = "", limit: int) -> list[TraceName]: ...

    async def find_outcome(self, key: IdempotencyKey) -> Outcome | None:
        """What became of the change with this key, if there was one."""
        ...

    async def forget_outcomes(self, before: Instant, *, limit: int) -> int:
        """Drop idempotency keys recorded before then; return how many."""
        ...

    # Entries.

    async def find_entries(self, space: str, wanted: Sequence[str]) -> list[Entry]:
        """The entries of these keys, in their order, without those that are not there."""
        ...

    async def list_entries(
        self, space: str, *, prefix: str = "", after: str = "", limit: int
    ) -> list[Entry]:
        """The entries whose keys begin with ``prefix`` and come behind ``after``, in order."""
        ...

    # The whole.

    async def stats(self) -> StoreStats: ...

    def gauges(self) -> Sequence[Gauge]:
        """Numbers of the database itself that say whether it keeps up."""
        ...

    async def backup(self, path: Path) -> None:
        """Write a copy of this instant to ``path``, which must not exist, while work goes on."""
        ...

    async def close(self) -> None: ...
