"""What one atomic write holds, and what became of it.

A push is a change with appends, a pop or an ack one with consumer updates, a transaction one
with several of each. A change is applied wholly or not at all; changes do not depend on each
other.
"""

from typing import TypeAlias

import msgspec

from skep.model.consumer import Consumer
from skep.model.names import Offset
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
    """Replace a group's state if it still has the version ``expected``.

    The change is refused as ``Gone`` if the group is not subscribed to the queue, and as
    ``Stale`` if ``subscription`` is not the id of its present subscription: versions begin
    anew with a group that was forgotten and came back, so they do not tell the two apart.
    With ``under_lease`` the lease of the present state must not have run out on the
    store's clock either.
    """

    queue: int
    partition: int
    group: str
    subscription: str = ""
    expected: int
    state: Consumer
    under_lease: bool = False


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
    """Happen once under this name; ``fingerprint`` tells a repetition from another use of it."""

    name: str
    fingerprint: bytes


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

    @property
    def weight(self) -> int:
        """Roughly how many bytes it keeps in memory until it is committed."""
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
    """The change is durable. ``repeated`` if an earlier one with its key was the one that is."""

    appended: tuple[Appended, ...] = ()
    repeated: bool = False


class Stale(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Something the change expected is no longer so: read again and decide again."""


class Expired(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A lease that the change relies on has run out on the store's clock."""


class Gone(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A partition of the change does not exist any more."""


class Reused(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The idempotency key belongs to another change."""


class Unreadable(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The change met stored data that is damaged. Nothing of it was written."""

    reason: str


Outcome: TypeAlias = Applied | Stale | Expired | Gone | Reused | Unreadable


class Commit(msgspec.Struct, frozen=True):
    """What a commit did: an outcome per change, and the segments that all of them made."""

    outcomes: list[Outcome]
    segments: list[Segment]
