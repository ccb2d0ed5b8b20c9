"""What can be asked of messages that are held, alone or together, and what became of it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from skep.model.change import EntryUpdate
from skep.model.message import Draft, Receipt
from skep.model.names import Offset

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
    ``repeated`` if its idempotency key had been used before: the receipts are those of the
    first time, and nothing was done again.
    """

    receipts: list[Sequence[Receipt]]
    settlements: list[Settlement]
    repeated: bool = False
