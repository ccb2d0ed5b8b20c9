"""Rows of PostgreSQL to model structs, by column name, and structs to statement parameters."""

from typing import Any, Protocol

import msgspec

from skep.errors import Corrupted
from skep.model.change import Applied
from skep.model.consumer import ConsumerState, Failure, Lease
from skep.model.dead_letter import DeadLetter
from skep.model.entry import Entry
from skep.model.name import LeaseId
from skep.model.queue import Partition, Queue, QueueOptions, Removal, Subscription
from skep.model.ranges import Ranges
from skep.model.segment import Columns, Segment
from skep.model.trace import TraceEvent
from skep.store.commit.evaluation import RecordedOutcome
from skep.store.postgres.nul_text import (
    from_label,
    from_text,
    from_texts,
    hash_of,
    to_label,
    to_text,
    to_texts,
)
from skep.store.protocol import StoredConsumer


class Row(Protocol):
    """A record of the driver. PostgreSQL checks the types of its values."""

    def __getitem__(self, column: str, /) -> Any: ...


SEGMENT_COLUMNS = (
    "partition",
    "start_offset",
    "queue",
    "lane",
    "position",
    "messages",
    "size",
    "created_at",
    "payloads",
    "transaction_ids",
    "trace_ids",
    "producers",
    "flags",
)

_OPTION_COLUMNS = {
    name: "max_queue_size" if name == "max_size" else name
    for name in QueueOptions.__struct_fields__
}
"""The column of each option, by the option's name."""

_ranges = msgspec.json.Decoder(Ranges)
_failures = msgspec.json.Decoder(tuple[Failure, ...])
_applied = msgspec.msgpack.Decoder(Applied)


def from_segment(segment: Segment) -> tuple[Any, ...]:
    return (
        segment.partition,
        segment.start,
        segment.queue,
        segment.lane,
        segment.position,
        len(segment.columns.payloads),
        segment.size,
        segment.created_at,
        *from_columns(segment.columns),
    )


def from_columns(columns: Columns) -> tuple[Any, ...]:
    traces = columns.trace_ids
    return (
        columns.payloads,
        to_texts(columns.transaction_ids),
        traces if traces is not None and any(traces) else None,
        to_texts(columns.producers),
        columns.flags if columns.flags and any(columns.flags) else None,
    )


def to_segment(row: Row) -> Segment:
    columns = Columns(
        payloads=row["payloads"],
        transaction_ids=from_texts(row["transaction_ids"]),
        trace_ids=row["trace_ids"],
        producers=from_texts(row["producers"]),
        flags=row["flags"],
    )
    _check_lengths(row, columns)
    return Segment(
        partition=row["partition"],
        start=row["start_offset"],
        queue=row["queue"],
        lane=row["lane"],
        position=row["position"],
        size=row["size"],
        created_at=row["created_at"],
        columns=columns,
    )


def _check_lengths(row: Row, columns: Columns) -> None:
    messages = row["messages"]
    lengths = {len(column) for column in msgspec.structs.astuple(columns) if column is not None}
    if lengths != {messages}:
        place = f"{row['partition']}/{row['start_offset']}"
        raise Corrupted(f"segment {place} has {messages} messages but columns of {lengths}")


def to_queue(row: Row) -> Queue:
    return Queue(
        number=row["number"],
        name=row["name"],
        namespace=row["namespace"],
        task=row["task"],
        options=QueueOptions(**{name: row[column] for name, column in _OPTION_COLUMNS.items()}),
        created_at=row["created_at"],
        version=row["version"],
    )


def from_options(options: QueueOptions) -> tuple[Any, ...]:
    return msgspec.structs.astuple(options)


def to_partition(row: Row) -> Partition:
    return Partition(
        number=row["number"],
        queue=row["queue"],
        name=row["name"],
        created_at=row["created_at"],
        start=row["start_offset"],
        end=row["end_offset"],
        first_at=row["first_at"],
        newest_at=row["newest_at"],
    )


def to_subscription(row: Row) -> Subscription:
    return Subscription(
        queue=row["queue"],
        group=row["consumer_group"],
        id=row["subscription"],
        mode=row["mode"],
        from_at=row["from_at"],
        created_at=row["subscribed_at"],
    )


def from_subscription(subscription: Subscription) -> tuple[Any, ...]:
    return (
        subscription.queue,
        subscription.group,
        subscription.id,
        subscription.mode,
        subscription.from_at,
        subscription.created_at,
    )


def from_consumer(state: ConsumerState) -> tuple[Any, ...]:
    lease = state.lease
    return (
        state.version,
        state.cursor,
        msgspec.json.encode(state.acked).decode() if state.acked else None,
        state.run_end,
        state.attempt,
        state.retries,
        state.ready_at,
        state.oldest_at,
        *((lease.id, lease.granted_at, lease.expires_at) if lease else (None, None, None)),
        *((lease.next_at, lease.completed) if lease else (None, None)),
        msgspec.json.encode(state.failed).decode() if state.failed else None,
        state.messages_consumed,
        state.batches_consumed,
        state.last_consumed_at,
        state.token,
    )


def to_consumer(row: Row) -> ConsumerState:
    acked, failed = row["acked"], row["failed"]
    return ConsumerState(
        version=row["version"],
        cursor=row["cursor_offset"],
        acked=_ranges.decode(acked) if acked else (),
        run_end=row["run_end"],
        attempt=row["attempt"],
        retries=row["retries"],
        ready_at=row["ready_at"],
        oldest_at=row["oldest_at"],
        lease=_to_lease(row) if row["lease_id"] is not None else None,
        failed=_failures.decode(failed) if failed else (),
        messages_consumed=row["messages_consumed"],
        batches_consumed=row["batches_consumed"],
        last_consumed_at=row["last_consumed_at"],
        token=row["token"],
    )


def _to_lease(row: Row) -> Lease:
    return Lease(
        id=LeaseId(row["lease_id"]),
        granted_at=row["granted_at"],
        expires_at=row["expires_at"],
        next_at=row["next_at"],
        completed=row["completed"],
    )


def to_stored_consumer(row: Row) -> StoredConsumer:
    return StoredConsumer(row["partition"], row["consumer_group"], to_consumer(row))


def from_letter(letter: DeadLetter) -> tuple[Any, ...]:
    return (
        letter.queue,
        letter.number,
        letter.partition,
        letter.offset,
        letter.group,
        to_text(letter.error),
        letter.attempts,
        letter.failed_at,
        letter.payload,
        to_label(letter.chosen_id),
        letter.trace,
        to_label(letter.producer),
        letter.created_at,
        letter.encrypted,
    )


def to_letter(row: Row) -> DeadLetter:
    return DeadLetter(
        queue=row["queue"],
        number=row["number"],
        partition=row["partition"],
        offset=row["at_offset"],
        group=row["consumer_group"],
        error=from_text(row["error"]),
        attempts=row["attempts"],
        failed_at=row["failed_at"],
        payload=row["payload"],
        chosen_id=from_label(row["transaction_id"]),
        trace=row["trace_id"],
        producer=from_label(row["producer"]),
        created_at=row["created_at"],
        encrypted=row["encrypted"],
    )


def from_event(event: TraceEvent) -> tuple[Any, ...]:
    return (
        event.partition,
        event.offset,
        event.number,
        to_text(event.kind),
        event.data,
        to_label(event.group),
        to_label(event.worker),
        event.created_at,
        list(map(to_text, event.names)),
    )


def to_event(row: Row) -> TraceEvent:
    return TraceEvent(
        partition=row["partition"],
        offset=row["at_offset"],
        number=row["number"],
        kind=from_text(row["kind"]),
        data=row["data"],
        group=from_label(row["consumer_group"]),
        worker=from_label(row["worker"]),
        created_at=row["created_at"],
        names=tuple(map(from_text, row["names"])),
    )


def to_removal(row: Row) -> Removal:
    return Removal(
        queue=row["queue"],
        partition=row["partition"],
        kind=row["kind"],
        messages=row["messages"],
        executed_at=row["executed_at"],
    )


def to_recorded(row: Row) -> RecordedOutcome:
    outcome = _applied.decode(row["outcome"])
    return RecordedOutcome(row["fingerprint"], outcome, row["created_at"])


def from_recorded(name: str, recorded: RecordedOutcome) -> tuple[Any, ...]:
    outcome = msgspec.msgpack.encode(recorded.outcome)
    return to_text(name), recorded.fingerprint, outcome, recorded.created_at


def to_entry(row: Row) -> Entry:
    return Entry(
        space=row["space"],
        key=row["key"],
        value=row["value"],
        version=row["version"],
        updated_at=row["updated_at"],
    )


def from_entry(entry: Entry) -> tuple[Any, ...]:
    hashed = hash_of(entry.key)
    return entry.space, hashed, entry.key, entry.value, entry.version, entry.updated_at
