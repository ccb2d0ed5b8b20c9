"""``/api/v1/messages``: messages without consuming them."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal
from uuid import UUID

import msgspec
from msgspec import UnsetType

from skep.errors import Forbidden
from skep.model.address import partition_id, partition_of
from skep.model.dead_letter import FailedMessage
from skep.model.message import Message
from skep.model.message_view import GroupStatus, MessageView
from skep.model.name import QUEUE_MODE
from skep.model.stats import MessageStatus
from skep.wire.body import Body
from skep.wire.message.pop import explicit_transaction_id
from skep.wire.pagination import Limit, Skip
from skep.wire.payload import Encoding, to_payload, to_wire

ModeType = Literal["queue", "bus", "hybrid", "none"]


class MessagesQuery(Body, frozen=True, kw_only=True):
    """The last hour by default. ``before`` is the ``next`` of a page."""

    queue: str | None = None
    partition: str | None = None
    namespace: str | None = None
    ns: str | None = None
    task: str | None = None
    status: MessageStatus | None = None
    from_: datetime | None = msgspec.field(default=None, name="from")
    to: datetime | None = None
    before: str | None = None
    limit: Limit = 200
    offset: Skip = 0


class BusStatus(Body, frozen=True, kw_only=True):
    """How many of the named groups have completed a message."""

    consumed_by: int
    total_groups: int


class Mode(Body, frozen=True, kw_only=True):
    """How queues are read: without a group name, by named groups, both, or not at all."""

    has_queue_mode: bool
    bus_groups_count: int
    type: ModeType


class WireMessage(Body, frozen=True, kw_only=True):
    """A message with its status. Its payload needs the permission to read payloads."""

    id: UUID
    transaction_id: str
    partition_id: UUID
    queue_path: str
    queue: str
    partition: str
    offset: int
    namespace: str | None
    task: str | None
    status: MessageStatus
    queue_status: MessageStatus | None
    bus_status: BusStatus
    trace_id: UUID | None
    producer_sub: str | None
    queue_priority: int
    created_at: datetime
    lease_expires_at: datetime | None
    is_encrypted: bool
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    encoding: Encoding | msgspec.UnsetType = msgspec.UNSET


class WireMessages(Body, frozen=True, kw_only=True):
    """Newest first. A page with a ``next`` may be short: the search for rare messages is limited in
    time."""

    messages: list[WireMessage]
    mode: Mode
    next: str | None


class MessageQueueConfig(Body, frozen=True, kw_only=True):
    lease_time: int
    retry_limit: int
    retry_delay: int
    ttl: int
    priority: int


class DetailMode(Mode, frozen=True, kw_only=True):
    consumed_by_groups: int


class MessageGroup(Body, frozen=True, kw_only=True):
    name: str
    consumed: bool
    status: MessageStatus
    lease_expires_at: datetime | None


class MessageDetail(WireMessage, frozen=True, kw_only=True):
    """One message with its status for each group."""

    error_message: str | None
    retry_count: int
    queue_config: MessageQueueConfig
    mode: DetailMode
    consumer_groups: list[MessageGroup]


class DeletedMessage(Body, frozen=True, kw_only=True):
    success: bool = True
    partition_id: UUID
    transaction_id: str
    message: str = "Message deleted"


class GroupBody(Body, frozen=True, kw_only=True):
    """The group; all groups if omitted."""

    consumer_group: str | None = None


class GiveUpBody(GroupBody, frozen=True, kw_only=True):
    error: str = ""


class Retried(Body, frozen=True, kw_only=True):
    """The new position of the message: at the end of its partition."""

    success: bool = True
    retried: bool = True
    transaction_id: str
    consumer_group: str
    message_id: UUID
    offset: int


class MovedToDeadLetters(Body, frozen=True, kw_only=True):
    success: bool = True
    moved_to_dlq: bool = msgspec.field(default=True, name="movedToDLQ")
    transaction_id: str
    message_id: UUID
    consumer_groups: list[str]


def to_message(view: MessageView) -> WireMessage:
    message, queue = view.message, view.queue
    payload, encoding = to_wire(message.payload) if view.shown else (msgspec.UNSET, msgspec.UNSET)
    leases = [each.lease_expires_at for each in view.group_statuses if each.lease_expires_at]
    unnamed = [each.status for each in view.group_statuses if each.group == QUEUE_MODE]
    return WireMessage(
        id=message.id,
        transaction_id=message.transaction_id,
        partition_id=partition_id(message.partition_number),
        queue_path=f"{message.queue}/{message.partition}",
        queue=message.queue,
        partition=message.partition,
        offset=message.offset,
        namespace=queue.namespace,
        task=queue.task,
        status=view.status,
        queue_status=unnamed[0] if unnamed else None,
        bus_status=_bus(view.group_statuses),
        trace_id=message.trace_id,
        producer_sub=message.producer,
        queue_priority=queue.options.priority,
        created_at=message.created_at,
        lease_expires_at=max(leases, default=None),
        is_encrypted=view.encrypted,
        payload=payload,
        encoding=encoding,
    )


def from_message(message: WireMessage) -> Message:
    """The message as the broker's type."""
    if isinstance(message.payload, UnsetType) or isinstance(message.encoding, UnsetType):
        raise Forbidden("reading payloads needs the permission 'read'")
    return Message(
        queue=message.queue,
        partition=message.partition,
        partition_number=partition_of(message.partition_id),
        offset=message.offset,
        payload=to_payload(message.payload, message.encoding),
        chosen_id=explicit_transaction_id(message.transaction_id, message.id),
        trace=message.trace_id.bytes if message.trace_id else None,
        producer=message.producer_sub,
        created_at=message.created_at,
    )


def to_message_detail(view: MessageView, letter: FailedMessage | None) -> MessageDetail:
    options = view.queue.options
    attempts = [letter.attempts] if letter else [each.attempt for each in view.group_statuses]
    mode = to_mode([view.group_statuses])
    return MessageDetail(
        **msgspec.structs.asdict(to_message(view)),
        error_message=letter.error if letter else None,
        retry_count=max(0, max(attempts, default=0) - 1),
        queue_config=MessageQueueConfig(
            lease_time=options.lease_time,
            retry_limit=options.retry_limit,
            retry_delay=options.retry_delay,
            ttl=options.ttl,
            priority=options.priority,
        ),
        mode=DetailMode(
            has_queue_mode=mode.has_queue_mode,
            bus_groups_count=mode.bus_groups_count,
            type=mode.type,
            consumed_by_groups=_bus(view.group_statuses).consumed_by,
        ),
        consumer_groups=[
            MessageGroup(
                name=each.group,
                consumed=_is_done(each),
                status=each.status,
                lease_expires_at=each.lease_expires_at,
            )
            for each in view.group_statuses
        ],
    )


def to_mode(all_statuses: Iterable[Sequence[GroupStatus]]) -> Mode:
    """How the queues of some messages are read."""
    groups = {each.group for statuses in all_statuses for each in statuses}
    named = len(groups - {QUEUE_MODE})
    unnamed = QUEUE_MODE in groups
    kind: ModeType = "none"
    if named:
        kind = "hybrid" if unnamed else "bus"
    elif unnamed:
        kind = "queue"
    return Mode(has_queue_mode=unnamed, bus_groups_count=named, type=kind)


def _bus(statuses: Sequence[GroupStatus]) -> BusStatus:
    named = [each for each in statuses if each.group != QUEUE_MODE]
    return BusStatus(consumed_by=sum(map(_is_done, named)), total_groups=len(named))


def _is_done(group_status: GroupStatus) -> bool:
    """A group that dead-lettered a message has completed it."""
    return group_status.status in ("completed", "dead_letter")
