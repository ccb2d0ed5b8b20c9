"""What can be asked of messages that are held, alone or together, and what became of it."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from skep.errors import Invalid
from skep.model.change import EntryUpdate
from skep.model.message import Delivery, Draft, Message, Receipt
from skep.model.name import LeaseId, Offset, check_lease_id, check_text

Status: TypeAlias = Literal["completed", "failed", "retry", "dead_letter"]
STATUSES = frozenset({"completed", "failed", "retry", "dead_letter"})


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """What a consumer says of one message. ``retry`` gives the lease back without counting."""

    partition: int
    offset: Offset
    status: Status = "completed"
    error: str = ""


class Settlement(msgspec.Struct, frozen=True, kw_only=True):
    """What an ack did.

    ``retry_at`` is set if the batch failed as a whole and will be delivered again.
    ``released`` says that nothing of the lease is held any more. ``given_up`` are the
    messages, as partition and offset, that became dead letters.
    """

    completed: int = 0
    given_up: tuple[tuple[int, Offset], ...] = ()
    retry_at: datetime | None = None
    released: bool = False

    @property
    def dead_letters(self) -> int:
        return len(self.given_up)


class Push(msgspec.Struct, frozen=True, tag=True):
    queue: str
    drafts: Sequence[Draft]


class Ack(msgspec.Struct, frozen=True, tag=True):
    """Settle messages of a lease; all that it holds, as completed, if none are named."""

    lease_id: str
    verdicts: Sequence[Verdict] | None = None


class Extend(msgspec.Struct, frozen=True, tag=True):
    lease_id: str
    seconds: int


class Keep(msgspec.Struct, frozen=True, tag=True):
    """Set or take away entries: what a stream query knows, for one."""

    updates: Sequence[EntryUpdate]


Operation: TypeAlias = Push | Ack | Extend | Keep


class Transaction(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a transaction.

    ``receipts`` has a list per push, ``settlements`` an entry per ack, in their order.
    ``repeated`` if its idempotency key had been used before: the answer is that of the first
    time, with the ``memo`` of its key, and nothing was done again.
    """

    receipts: list[Sequence[Receipt]]
    settlements: list[Settlement]
    repeated: bool = False
    memo: bytes = b""


def lease_id_of(lease: Delivery | str) -> LeaseId:
    """The id of a lease, given as such or as what was delivered under it."""
    if isinstance(lease, Delivery):
        if lease.lease_id is None:
            raise Invalid("lease", "this delivery was acknowledged when it was popped")
        return lease.lease_id
    return check_lease_id("lease", lease)


def verdicts_on(messages: Iterable[Message], status: Status, error: str = "") -> list[Verdict]:
    """The same verdict on each of these messages."""
    error = check_text("error", error)
    if not isinstance(messages, Iterable):
        raise Invalid("messages", f"must be messages, not {type(messages).__name__}")
    messages = list(messages)
    if not messages or not all(isinstance(message, Message) for message in messages):
        raise Invalid("messages", "must be messages, at least one")
    return [
        Verdict(message.partition_number, message.offset, status, error) for message in messages
    ]


def messages_of(lease: Delivery | str, messages: Iterable[Message] | None) -> Iterable[Message]:
    """The messages that are meant: all that was delivered if none are named."""
    if messages is not None:
        return messages
    if not isinstance(lease, Delivery):
        raise Invalid("messages", "must be given with a lease id")
    return lease.messages
