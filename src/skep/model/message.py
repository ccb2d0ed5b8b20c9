"""A message before it is pushed, after it, and as a pop hands it over."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Self, overload
from uuid import UUID

import msgspec

from skep.errors import Invalid
from skep.model.address import message_id, message_text
from skep.model.change import Appended
from skep.model.name import DEFAULT_PARTITION, LeaseId, Offset


class Draft(msgspec.Struct, frozen=True, gc=False):
    """A message that has not been pushed yet: it has no offset.

    Two drafts with the same ``transaction_id`` in one partition are one message, whoever
    pushes them and however often. Without one, the message's own id takes its place.
    """

    payload: bytes
    partition: str = DEFAULT_PARTITION
    transaction_id: str | None = None
    trace_id: UUID | None = None

    @classmethod
    def json(
        cls,
        value: Any,
        partition: str = DEFAULT_PARTITION,
        transaction_id: str | None = None,
        trace_id: UUID | None = None,
    ) -> Self:
        """A draft whose payload is ``value`` as JSON."""
        return cls(msgspec.json.encode(value), partition, transaction_id, trace_id)


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """Where a draft was stored. For a ``duplicate`` that is where the first one is.

    A server whose pushes are in maintenance lays drafts aside, durably, and delivers them
    later: then there is no place yet, and ``partition_number`` and ``offset`` are -1.
    """

    partition: str
    partition_number: int
    offset: Offset
    duplicate: bool
    chosen_id: str | None

    @property
    def id(self) -> UUID:
        return message_id(self.partition_number, self.offset)

    @property
    def transaction_id(self) -> str:
        return self.chosen_id or message_text(self.partition_number, self.offset)


class Receipts(Sequence[Receipt]):
    """The receipts of one append, each made when it is looked at: most never are."""

    __slots__ = ("_partition", "ids", "places")

    def __init__(self, partition: str, places: Appended, ids: Sequence[str | None]) -> None:
        self._partition = partition
        self.places = places
        self.ids = ids

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Receipt: ...
    @overload
    def __getitem__(self, index: slice) -> list[Receipt]: ...
    def __getitem__(self, index: int | slice) -> Receipt | list[Receipt]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        places = self.places
        return Receipt(
            self._partition,
            places.partition,
            places.offsets[index],
            index % len(self) in places.duplicates,
            self.ids[index],
        )

    def __iter__(self) -> Iterator[Receipt]:
        partition, places, ids = self._partition, self.places, self.ids
        for index, offset in enumerate(places.offsets):
            yield Receipt(
                partition, places.partition, offset, index in places.duplicates, ids[index]
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __repr__(self) -> str:
        return repr(list(self))


class Message(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One entry of a partition; it never changes.

    Order within a partition is the order of offsets; there is none between partitions.
    ``attempt`` says how often this delivery's run was handed out, from 1; it is 0 for a
    message that was read without a lease.
    """

    queue: str
    partition: str
    partition_number: int
    offset: Offset
    payload: bytes
    chosen_id: str | None
    trace: bytes | None
    producer: str | None
    created_at: datetime
    attempt: int = 0

    @property
    def id(self) -> UUID:
        return message_id(self.partition_number, self.offset)

    @property
    def transaction_id(self) -> str:
        return self.chosen_id or message_text(self.partition_number, self.offset)

    @property
    def trace_id(self) -> UUID | None:
        return UUID(bytes=self.trace) if self.trace else None

    def json(self) -> Any:
        """The payload as the value that its JSON stands for."""
        try:
            return msgspec.json.decode(self.payload)
        except (msgspec.DecodeError, RecursionError) as error:
            raise Invalid("payload", f"is not JSON: {error}") from None


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """What one pop returns: messages of one or several partitions under one lease.

    ``lease_id`` is None if the pop acknowledged at once. ``lease_seconds`` is how long the
    lease was given for, so that nobody has to compare ``expires_at`` with a clock of his own.
    ``truncated`` counts the messages that retention removed before this group had read them.
    """

    group: str
    lease_id: LeaseId | None
    expires_at: datetime | None
    messages: list[Message]
    truncated: int = 0
    lease_seconds: int | None = None


class Page(msgspec.Struct, frozen=True):
    """Some messages, and where the next page begins: None if this was the last."""

    messages: list[Message]
    next: str | None
