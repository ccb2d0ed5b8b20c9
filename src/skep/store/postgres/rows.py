"""Rows of PostgreSQL to the nouns and back, in the order of the columns in the statements."""

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


class Row(Protocol):
    """What the driver gives: checked by the types of the columns, not by ours."""

    def __getitem__(self, index: Any, /) -> Any: ...


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
    messages = row[5]
    columns = Columns(
        payloads=row[8],
        transaction_ids=from_texts(row[9]),
        trace_ids=row[10],
        producers=from_texts(row[11]),
        flags=row[12],
    )
    lengths = {len(column) for column in row[8:13] if column is not None}
    if lengths != {messages}:
        raise Corrupted(f"segment {row[0]}/{row[1]} says {messages} messages and holds {lengths}")
    return Segment(
        partition=row[0],
        start=row[1],
        queue=row[2],
        lane=row[3],
        position=row[4],
        size=row[6],
        created_at=row[7],
        columns=columns,
    )


def to_queue(row: Row) -> Queue:
    return Queue(
        number=row[0],
        name=row[1],
        namespace=row[2],
        task=row[3],
        options=QueueOptions(**dict(zip(QueueOptions.__struct_fields__, row[4:19], strict=True))),
        created_at=row[19],
        version=row[20],
    )


def from_options(options: QueueOptions) -> tuple[Any, ...]:
    return msgspec.structs.astuple(options)


def to_partition(row: Row) -> Partition:
    return Partition(
        number=row[0],
        queue=row[1],
        name=row[2],
        created_at=row[3],
        start=row[4],
        end=row[5],
        first_at=row[6],
        newest_at=row[7],
    )


def to_subscription(row: Row) -> Subscription:
    return Subscription(
        queue=row[0], group=row[1], id=row[2], mode=row[3], from_at=row[4], created_at=row[5]
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
    return ConsumerState(
        version=row[0],
        cursor=row[1],
        acked=_ranges.decode(row[2]) if row[2] else (),
        run_end=row[3],
        attempt=row[4],
        retries=row[5],
        ready_at=row[6],
        oldest_at=row[7],
        lease=Lease(LeaseId(row[8]), *row[9:13]) if row[8] is not None else None,
        failed=_failures.decode(row[13]) if row[13] else (),
        messages_consumed=row[14],
        batches_consumed=row[15],
        last_consumed_at=row[16],
        token=row[17],
    )


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
        queue=row[0],
        number=row[1],
        partition=row[2],
        offset=row[3],
        group=row[4],
        error=from_text(row[5]),
        attempts=row[6],
        failed_at=row[7],
        payload=row[8],
        chosen_id=from_label(row[9]),
        trace=row[10],
        producer=from_label(row[11]),
        created_at=row[12],
        encrypted=row[13],
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
        partition=row[0],
        offset=row[1],
        number=row[2],
        kind=from_text(row[3]),
        data=row[4],
        group=from_label(row[5]),
        worker=from_label(row[6]),
        created_at=row[7],
        names=tuple(map(from_text, row[8])),
    )


def to_removal(row: Row) -> Removal:
    return Removal(queue=row[0], partition=row[1], kind=row[2], messages=row[3], executed_at=row[4])


def to_recorded(row: Row) -> RecordedOutcome:
    return RecordedOutcome(row[1], _applied.decode(row[2]), row[3])


def from_recorded(name: str, recorded: RecordedOutcome) -> tuple[Any, ...]:
    outcome = msgspec.msgpack.encode(recorded.outcome)
    return to_text(name), recorded.fingerprint, outcome, recorded.created_at


def to_entry(row: Row) -> Entry:
    return Entry(space=row[0], key=row[1], value=row[2], version=row[3], updated_at=row[4])


def from_entry(entry: Entry) -> tuple[Any, ...]:
    hashed = hash_of(entry.key)
    return entry.space, hashed, entry.key, entry.value, entry.version, entry.updated_at
