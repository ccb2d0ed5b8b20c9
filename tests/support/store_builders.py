"""Short words for what the tests of a store are made of."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from skep.model.change import (
    Append,
    Appended,
    Applied,
    Change,
    ConsumerUpdate,
    DeadLetterRemoval,
    GiveUp,
    IdempotencyKey,
    Outcome,
)
from skep.model.consumer import ConsumerState, Lease, Revision
from skep.model.dead_letter import DeadLetter, DeadLetterFilter
from skep.model.name import SECOND, Instant, LeaseId, Offset
from skep.model.queue import Partition, Queue, Subscription
from skep.model.segment import Columns, Segment
from skep.model.trace import TraceEvent
from skep.store.protocol import Store

NO_LIMIT = 1 << 40
UNKNOWN = 999_999
"""A number that no queue and no partition has."""
TRACE = bytes(range(16))

APPLIED = Applied()


class Entry(NamedTuple):
    """A message as it is kept."""

    offset: Offset
    payload: bytes
    chosen_id: str | None = None
    trace: bytes | None = None
    producer: str | None = None
    flag: int = 0


GROUPS = ("billing", "even", "g", "gg", "h")
"""The groups that the tests write states of."""


async def make_queue(
    store: Store, name: str = "orders", *, groups: Sequence[str] = GROUPS
) -> Queue:
    queue = await store.put_queue(Queue(number=0, name=name))
    await subscribe(store, queue, *groups)
    return queue


async def subscribe(store: Store, queue: Queue, *groups: str) -> None:
    for group in groups:
        await store.subscribe(
            Subscription(queue=queue.number, group=group, mode="all", from_at=None, created_at=0),
            [],
        )


async def make_partition(store: Store, queue: Queue, name: str = "alice") -> Partition:
    (partition,) = await store.create_partitions(queue.number, [name])
    return partition


def columns(
    *payloads: bytes,
    ids: Sequence[str | None] | None = None,
    traces: Sequence[bytes | None] | None = None,
    producers: Sequence[str | None] | None = None,
    flags: bytes | None = None,
) -> Columns:
    return Columns(
        payloads=list(payloads),
        transaction_ids=ids,
        trace_ids=traces,
        producers=producers,
        flags=flags,
    )


def append(partition: Partition, what: Columns, *, replay: bool = False) -> Append:
    return Append(queue=partition.queue, partition=partition.number, columns=what, replay=replay)


def append_ids(partition: Partition, *ids: str | None, replay: bool = False) -> Append:
    """Messages with these ids, whose payload is the id again."""
    payloads = [str(chosen).encode() for chosen in ids]
    return append(partition, columns(*payloads, ids=ids), replay=replay)


def push(partition: Partition, *payloads: bytes) -> Change:
    return Change(appends=(append(partition, columns(*payloads)),))


def push_ids(partition: Partition, *ids: str | None) -> Change:
    return Change(appends=(append_ids(partition, *ids),))


def update(
    partition: Partition,
    expected: int,
    state: ConsumerState,
    *,
    group: str = "billing",
    under: str | None = None,
) -> ConsumerUpdate:
    """Replace the state of the version ``expected``, ``under`` a lease."""
    return ConsumerUpdate(
        queue=partition.queue,
        partition=partition.number,
        group=group,
        expected=Revision(expected, 0),
        state=state,
        lease=LeaseId(under) if under else None,
    )


def stale_update(partition: Partition) -> ConsumerUpdate:
    """One that no store may apply: it expects a state that never was."""
    return update(partition, 77, ConsumerState(version=78), group="nobody")


def lease(until: Instant, name: str = "a") -> Lease:
    return Lease(LeaseId(name), until - 30 * SECOND, until)


def give_up(
    partition: Partition, offset: Offset, *, group: str = "billing", error: str = "no"
) -> GiveUp:
    return GiveUp(
        queue=partition.queue,
        partition=partition.number,
        offset=offset,
        group=group,
        error=error,
        attempts=4,
    )


def removal(letter: DeadLetter) -> DeadLetterRemoval:
    return DeadLetterRemoval(queue=letter.queue, number=letter.number)


def event(
    partition: Partition, offset: Offset, *names: str, kind: str = "info", data: bytes = b"{}"
) -> TraceEvent:
    return TraceEvent(partition=partition.number, offset=offset, kind=kind, data=data, names=names)


def key(name: str = "k", fingerprint: bytes = b"f") -> IdempotencyKey:
    return IdempotencyKey(name=name, fingerprint=fingerprint)


async def commit_one(store: Store, change: Change) -> Outcome:
    (outcome,) = (await store.commit([change])).outcomes
    return outcome


async def appended(store: Store, change: Change) -> Appended:
    """Commit a change with one append, which must succeed."""
    outcome = await commit_one(store, change)
    assert isinstance(outcome, Applied)
    (where,) = outcome.appended
    return where


def placed(
    partition: Partition, offsets: Sequence[Offset], duplicates: Iterable[int] = ()
) -> Appended:
    return Appended(
        partition=partition.number, offsets=list(offsets), duplicates=frozenset(duplicates)
    )


async def push_each(store: Store, partition: Partition, *payloads: bytes) -> None:
    """Commit each message alone, so that each has a segment of its own."""
    for payload in payloads:
        await appended(store, push(partition, payload))


async def fresh(store: Store, partition: Partition) -> Partition:
    """The partition as the store has it now."""
    known = {found.number: found for found in await store.partitions(partition.queue)}
    return known[partition.number]


async def read_all(store: Store, partition: Partition, offset: Offset = 0) -> list[Segment]:
    return await store.read(partition.number, offset, messages=NO_LIMIT, size=NO_LIMIT)


async def entries(store: Store, partition: Partition) -> list[Entry]:
    return [entry for segment in await read_all(store, partition) for entry in unfold(segment)]


async def payloads(store: Store, partition: Partition) -> list[bytes]:
    return [entry.payload for entry in await entries(store, partition)]


async def consumer(
    store: Store, partition: Partition, group: str = "billing"
) -> ConsumerState | None:
    found = {(at, name): state for at, name, state in await store.consumers(partition.queue)}
    return found.get((partition.number, group))


async def letters(store: Store, queue: Queue) -> list[DeadLetter]:
    """The dead letters of a queue, newest first."""
    return await store.dead_letters(DeadLetterFilter(queue=queue.number), limit=1000)


async def truncate_all(store: Store, partition: Partition, before: Offset) -> list[int]:
    """Truncate until nothing is left to remove; return what each step removed."""
    steps: list[int] = []
    while True:
        step = await store.truncate(partition.queue, partition.number, before, kind="retention")
        if not step.messages:
            return steps
        steps.append(step.messages)


async def purge_all(store: Store) -> int:
    """Remove what deleted queues left; return in how many steps."""
    steps = 0
    while await store.purge():
        steps += 1
    return steps


async def crowd(store: Store, name: str, partitions: int) -> Queue:
    """A queue with many partitions, each with a message and two groups at it."""
    queue = await make_queue(store, name, groups=["g", "h"])
    made = await store.create_partitions(queue.number, [f"{n}" for n in range(partitions)])
    await store.commit([push_ids(partition, "a") for partition in made])
    states = [
        update(partition, 0, ConsumerState(version=1), group=group)
        for group in ("g", "h")
        for partition in made
    ]
    await store.commit([Change(consumers=tuple(states))])
    return queue


def unfold(segment: Segment) -> Iterable[Entry]:
    part = segment.columns
    nothing = [None] * len(part)
    return (
        Entry(segment.start + index, payload, chosen, trace, producer, flag)
        for index, (payload, chosen, trace, producer, flag) in enumerate(
            zip(
                part.payloads,
                nothing if part.transaction_ids is None else part.transaction_ids,
                nothing if part.trace_ids is None else part.trace_ids,
                nothing if part.producers is None else part.producers,
                bytes(len(part)) if part.flags is None else part.flags,
                strict=True,
            )
        )
    )


def bounds(segments: Iterable[Segment]) -> list[tuple[Offset, Offset]]:
    return [(segment.start, segment.end) for segment in segments]


def first_payloads(segments: Iterable[Segment]) -> list[bytes]:
    return [segment.columns.payloads[0] for segment in segments]
