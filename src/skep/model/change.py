"""What one atomic write holds, and what became of it.

A push is a change with appends, a pop or an ack one with consumer updates, a transaction one
with several of each. A change is applied wholly or not at all; changes do not depend on each
other.
"""

from typing import NamedTuple, TypeAlias

import msgspec

from skep.model.consumer import ConsumerState, Revision
from skep.model.name import LeaseId, Offset
from skep.model.segment import Columns, Segment
from skep.model.trace import TraceEvent

CHANGE_WEIGHT = 1000


def weight_of(messages: int, size: int) -> int:
    """Roughly what messages with payloads of this size keep in memory until they are committed."""
    return size + 100 * messages


class Append(msgspec.Struct, frozen=True, kw_only=True):
    """Put messages at the end of a partition.

    A message whose transaction id is already in the partition is not stored again. With
    ``replay`` it is: a dead letter goes back under its old id, which then names the new message.
    """

    queue: int
    partition: int
    columns: Columns
    replay: bool = False


class ConsumerUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """Replace a group's state if it still has the revision ``expected``.

    The change is refused as ``Gone`` if the group is not subscribed to the queue, and as
    ``Stale`` if ``subscription`` is not the id of its current subscription: versions restart
    when a group is deleted and subscribes again. With ``lease`` the current state must also be
    leased under this id, and the lease must not have expired on the store's clock.
    """

    queue: int
    partition: int
    group: str
    subscription: str = ""
    expected: Revision
    state: ConsumerState
    lease: LeaseId | None = None


class GiveUp(msgspec.Struct, frozen=True, kw_only=True):
    """Make a message a dead letter of ``group``; the store copies the message itself."""

    queue: int
    partition: int
    offset: Offset
    group: str
    error: str
    attempts: int


class DeadLetterRemoval(msgspec.Struct, frozen=True, kw_only=True):
    """Take a dead letter away; the change is stale if it is not there."""

    queue: int
    number: int


class IdempotencyKey(msgspec.Struct, frozen=True, kw_only=True):
    """Happen once under this name; ``fingerprint`` tells a repetition from another use of it.

    ``memo`` is kept with the outcome, and comes back with it when the change is repeated.
    """

    name: str
    fingerprint: bytes
    memo: bytes = b""


class QueueVersion(NamedTuple):
    """The configuration of a queue that a change was decided on."""

    queue: int
    version: int


class EntryVersion(NamedTuple):
    """An entry that a change was decided on; version 0 if there was none."""

    space: str
    key: str
    version: int


class Capacity(NamedTuple):
    """How many messages a change adds to a queue, and how many it may have had pushed by then.

    The backlog of a queue grows by pushes only. A server that finds room for some more when a
    certain number was pushed knows up to which number there is room, whatever others push then.
    """

    queue: int
    messages: int
    total: int


class EntryUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """Set the value of a key in a space; None takes it away.

    The change is stale unless the entry has the version ``expected``; 0 means that there is
    none. Without ``expected`` it does not matter.
    """

    space: str
    key: str
    value: bytes | None
    expected: int | None = None


class Change(msgspec.Struct, frozen=True, kw_only=True):
    appends: tuple[Append, ...] = ()
    consumers: tuple[ConsumerUpdate, ...] = ()
    dead_letters: tuple[GiveUp, ...] = ()
    removals: tuple[DeadLetterRemoval, ...] = ()
    traces: tuple[TraceEvent, ...] = ()
    entries: tuple[EntryUpdate, ...] = ()
    outbox: tuple[int, ...] = ()
    """Rows of the outbox that go with it; the change is stale if one is gone or held by another."""
    key: IdempotencyKey | None = None
    queues: tuple[QueueVersion, ...] = ()
    """The change is refused if one of them was configured or deleted since."""
    based_on: tuple[EntryVersion, ...] = ()
    """The change is stale if one of these entries has another version."""
    capacity: tuple[Capacity, ...] = ()
    """The change is stale if more was pushed to one of these queues than there was room for."""

    @property
    def weight(self) -> int:
        """Roughly how many bytes it keeps in memory until it is committed."""
        if not (self.appends or self.traces or self.dead_letters or self.entries):
            return CHANGE_WEIGHT
        columns = [append.columns.payloads for append in self.appends]
        return (
            CHANGE_WEIGHT
            + sum(weight_of(len(payloads), sum(map(len, payloads))) for payloads in columns)
            + sum(len(event.data) for event in self.traces)
            + sum(len(letter.error) for letter in self.dead_letters)
            + sum(len(entry.value or b"") for entry in self.entries)
        )


class Appended(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where the messages of an append are; ``duplicates`` are indexes into ``offsets``."""

    partition: int
    offsets: list[Offset]
    duplicates: frozenset[int] = frozenset()


class Applied(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The change is durable. ``repeated`` if an earlier one with its key was the one that is.

    ``memo`` is that of the key, if the change has one.
    """

    appended: tuple[Appended, ...] = ()
    repeated: bool = False
    memo: bytes = b""


class Stale(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Something the change expected is no longer so: read again and decide again."""


class Reconfigured(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A queue was configured since the change was decided: decide again."""


class Expired(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A lease that the change relies on has run out on the store's clock."""


class Gone(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A partition of the change does not exist any more."""


class Reused(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The idempotency key belongs to another change."""


class Unreadable(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The change met stored data that is damaged. Nothing of it was written."""

    reason: str


Outcome: TypeAlias = Applied | Stale | Reconfigured | Expired | Gone | Reused | Unreadable


class Commit(msgspec.Struct, frozen=True):
    """What a commit did: an outcome per change, and the segments that all of them made."""

    outcomes: list[Outcome]
    segments: list[Segment]
