"""``POST /api/v1/configure``; deleting and clearing queues."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec

from skep.errors import Invalid
from skep.model.address import address_of, partition_id, queue_id
from skep.model.name import check_label, check_name, from_datetime, to_datetime
from skep.model.queue import Queue, QueueOptions, options_from
from skep.wire.body import Body

_DEFAULT = QueueOptions()


class WireOptions(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a queue. ``retryDelay`` is in milliseconds, other times in seconds."""

    lease_time: int = _DEFAULT.lease_time
    retry_limit: int = _DEFAULT.retry_limit
    retry_delay: int = _DEFAULT.retry_delay
    priority: int = _DEFAULT.priority
    max_size: int = _DEFAULT.max_size
    ttl: int = _DEFAULT.ttl
    dead_letter_queue: bool = _DEFAULT.dead_letter_queue
    dlq_after_max_retries: bool = _DEFAULT.dlq_after_max_retries
    delayed_processing: int = _DEFAULT.delayed_processing
    window_buffer: int = _DEFAULT.window_buffer
    retention_seconds: int = _DEFAULT.retention_seconds
    completed_retention_seconds: int = _DEFAULT.completed_retention_seconds
    retention_enabled: bool = _DEFAULT.retention_enabled
    encryption_enabled: Annotated[
        bool,
        msgspec.Meta(
            description="Encrypt payloads. Error texts, trace data, names and ids are plaintext."
        ),
    ] = _DEFAULT.encryption_enabled
    max_wait_time_seconds: int = _DEFAULT.max_wait_time_seconds


class ConfigureBody(Body, frozen=True, kw_only=True):
    """A queue to create or to reconfigure: an omitted option gets its default."""

    queue: str
    namespace: str | None = None
    task: str | None = None
    options: WireOptions = WireOptions()


class Configured(Body, frozen=True, kw_only=True):
    configured: bool = True
    queue_id: UUID
    partition_id: UUID
    queue: str
    namespace: str | None
    task: str | None
    created_at: datetime
    options: WireOptions


class DeletedQueue(Body, frozen=True, kw_only=True):
    """``deleted`` is true also if there was none."""

    deleted: bool = True
    queue: str
    existed: bool
    id: UUID | None


class ClearQuery(Body, frozen=True, kw_only=True):
    partition: str | None = None


class Cleared(Body, frozen=True, kw_only=True):
    cleared: bool = True
    count: int
    queue: str
    partition: str


def to_options(options: WireOptions) -> dict[str, Any]:
    values = msgspec.structs.asdict(options)
    try:
        options_from(values)
    except Invalid as error:
        raise error.within("options") from None
    return values


def from_options(options: QueueOptions) -> WireOptions:
    return WireOptions(**msgspec.structs.asdict(options))


def to_configured(queue: Queue, partition: int) -> Configured:
    return Configured(
        queue_id=queue_id(queue.number),
        partition_id=partition_id(partition),
        queue=queue.name,
        namespace=queue.namespace,
        task=queue.task,
        created_at=to_datetime(queue.created_at),
        options=from_options(queue.options),
    )


def to_queue(
    *,
    identifier: UUID,
    name: str,
    namespace: str | None,
    task: str | None,
    created_at: datetime,
    options: WireOptions,
) -> Queue:
    """A queue from the server's description of it."""
    return Queue(
        number=address_of(identifier)[0],
        name=name,
        namespace=namespace,
        task=task,
        options=options_from(msgspec.structs.asdict(options)),
        created_at=from_datetime("created_at", created_at),
    )


def from_configuration(
    queue: str, namespace: str | None, task: str | None, options: Mapping[str, Any]
) -> ConfigureBody:
    return ConfigureBody(
        queue=check_name("queue", queue),
        namespace=check_label("namespace", namespace),
        task=check_label("task", task),
        options=from_options(options_from(options)),
    )
