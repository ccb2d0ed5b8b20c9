"""``/streams/v1``: bodies in snake case, as in Queen."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

import msgspec

from skep.wire.body import LIST
from skep.wire.message.push import Pushed, PushItem
from skep.wire.payload import empty


class RegisterBody(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    source_queue: str
    config_hash: str
    sink_queue: str | None = None
    reset: bool = False


class Registered(msgspec.Struct, frozen=True, kw_only=True):
    """``fresh`` is true if the query was not registered before."""

    success: bool = True
    query_id: UUID
    name: str
    config_hash: str
    fresh: bool
    reset: bool


class StateBody(msgspec.Struct, frozen=True, kw_only=True):
    """A selection of the state: these keys, or all, that meet every other condition."""

    query_id: UUID
    partition_id: UUID
    keys: Annotated[tuple[str, ...], LIST] = ()
    key_prefix: str | None = None
    ripe_at_or_before: int | None = None
    """Milliseconds: only values whose ``windowEnd`` is not later."""


class StateRow(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    value: msgspec.Raw
    updated_at: datetime


class StateResponse(msgspec.Struct, frozen=True, kw_only=True):
    success: bool = True
    rows: list[StateRow]


class StateOperation(msgspec.Struct, frozen=True, kw_only=True):
    type: Literal["upsert", "delete"]
    key: str
    value: msgspec.Raw = msgspec.field(default_factory=empty)


class CycleAckBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """``transactionId`` is that of the last message of the batch."""

    transaction_id: str
    lease_id: str
    status: Literal["completed", "failed", "dlq"] = "completed"
    error: str | None = None
    count: int = 0


class CycleBody(msgspec.Struct, frozen=True, kw_only=True):
    query_id: UUID
    partition_id: UUID
    consumer_group: str | None = None
    release_lease: bool = True
    state_ops: Annotated[tuple[StateOperation, ...], LIST] = ()
    push_items: Annotated[tuple[PushItem, ...], LIST] = ()
    ack: CycleAckBody | None = None


class CycleAckResult(msgspec.Struct, frozen=True, kw_only=True):
    success: bool
    count: int
    lease_released: bool
    dlq: bool


class CycleResponse(msgspec.Struct, frozen=True, kw_only=True):
    """``success`` is false if nothing was written; ``error`` is the reason."""

    success: bool
    query_id: UUID
    partition_id: UUID
    queue: str | None = msgspec.field(default=None, name="queueName")
    state_ops_applied: int = 0
    push_results: list[Pushed] = []
    ack_result: CycleAckResult | None = None
    error: str | None = None
