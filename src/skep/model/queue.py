"""Queues, their options and partitions."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from skep.errors import Invalid
from skep.model.name import Instant, Offset

_YEARS = 10 * 365 * 86_400
Seconds = Annotated[int, msgspec.Meta(ge=0, le=_YEARS)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class QueueOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a queue treats its messages. The names are Queen's, in our case.

    ``retry_delay`` is in milliseconds, every other time in seconds; 0 turns a rule off.
    ``ttl``, ``dead_letter_queue`` and ``dlq_after_max_retries`` are kept because Queen's
    clients send them and read them back; they change nothing: a message that was given up
    always becomes a dead letter, and age is ``retention_seconds``' business.
    """

    lease_time: Annotated[int, msgspec.Meta(ge=1, le=_YEARS)] = 300
    retry_limit: Count = 3
    retry_delay: Annotated[int, msgspec.Meta(ge=0, le=86_400_000)] = 1000
    priority: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)] = 0
    max_size: Count = 0
    ttl: Seconds = 3600
    dead_letter_queue: bool = False
    dlq_after_max_retries: bool = False
    delayed_processing: Seconds = 0
    window_buffer: Seconds = 0
    max_wait_time_seconds: Seconds = 0
    retention_enabled: bool = False
    retention_seconds: Seconds = 0
    completed_retention_seconds: Seconds = 0
    encryption_enabled: bool = False


def options_from(values: Mapping[str, Any]) -> QueueOptions:
    """Options from plain values; an unknown name or a value out of range is ``Invalid``."""
    for name, value in values.items():
        if name not in QueueOptions.__struct_fields__:
            raise Invalid(name, "is not an option of a queue")
        try:
            msgspec.convert({name: value}, QueueOptions)
        except msgspec.ValidationError as error:
            raise Invalid(name, str(error).split(" - at ")[0].lower()) from None
    return QueueOptions(**values)


def labels_of(name: str) -> tuple[str | None, str | None]:
    """The namespace and the task in a queue's name: ``shop.orders`` has both, ``orders`` none."""
    namespace, _, rest = name.partition(".")
    return (namespace or None) if rest else None, rest.partition(".")[0] or None


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A named set of partitions with one configuration. Its number is never used again."""

    number: int
    name: str
    namespace: str | None = None
    task: str | None = None
    options: QueueOptions = QueueOptions()
    created_at: Instant = 0
    version: int = 0
    """Another number after every change of the configuration; never used again."""


class Partition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One ordered line of a queue.

    It keeps the messages from ``start`` up to, not including, ``end``; what lies before
    ``start`` was removed by retention. ``first_at`` and ``newest_at`` are when the oldest
    and the newest message kept were pushed; both are 0 as long as there was none.
    """

    number: int
    queue: int
    name: str
    created_at: Instant
    start: Offset = 0
    end: Offset = 0
    first_at: Instant = 0
    newest_at: Instant = 0


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """A group's first contact with a queue: where it started, for the record.

    The cursors that follow from it were written for every partition that existed then; a
    partition born later is read from its beginning. A group that was forgotten and comes back
    has another ``id``.
    """

    id: str = ""

    queue: int
    group: str
    mode: str
    from_at: Instant | None
    created_at: Instant


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the retention history: what was removed from a partition, and by which rule."""

    queue: int
    partition: int
    kind: str
    messages: int
    executed_at: Instant
