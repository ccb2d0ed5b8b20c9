"""A message that a group gave up on."""

from datetime import datetime
from uuid import UUID

import msgspec

from skep.model.address import message_id
from skep.model.name import Instant, Offset


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A message a group gave up on, with its own copy of the payload.

    The copy is as it was stored: encrypted if the queue was. Retention of the queue does
    not touch it. There is at most one per message and group: the newest.
    """

    number: int
    queue: int
    partition: int
    offset: Offset
    group: str
    error: str
    attempts: int
    failed_at: Instant
    payload: bytes
    chosen_id: str | None
    trace: bytes | None
    producer: str | None
    created_at: Instant
    encrypted: bool

    @property
    def message_id(self) -> UUID:
        return message_id(self.partition, self.offset)

    @property
    def transaction_id(self) -> str:
        return self.chosen_id or str(self.message_id)


class DeadLetterFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which dead letters of a queue are meant; what is None does not restrict."""

    queue: int
    group: str | None = None
    partition: int | None = None
    from_at: Instant | None = None
    to_at: Instant | None = None

    def matches(self, letter: DeadLetter) -> bool:
        return (
            (self.group is None or letter.group == self.group)
            and (self.partition is None or letter.partition == self.partition)
            and (self.from_at is None or letter.failed_at >= self.from_at)
            and (self.to_at is None or letter.failed_at < self.to_at)
        )


class FailedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter as people see it: with names, and in the clear."""

    number: int
    queue: str
    partition: str
    offset: Offset
    message_id: UUID
    transaction_id: str
    trace_id: UUID | None
    group: str
    error: str
    attempts: int
    payload: bytes
    producer: str | None
    created_at: datetime
    failed_at: datetime
