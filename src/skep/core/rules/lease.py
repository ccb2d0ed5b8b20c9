"""Taking, keeping and giving back a partition. Pure: each function returns the next state."""

from msgspec.structs import replace

from skep.core.rules.retry import latest_retry_at
from skep.model import ranges
from skep.model.consumer import ConsumerState, Lease
from skep.model.name import SECOND, Instant, LeaseId, Offset
from skep.model.queue import QueueOptions
from skep.model.ranges import Ranges


def is_live(consumer: ConsumerState, lease_id: LeaseId, now: Instant) -> bool:
    lease = consumer.live_lease(now)
    return lease is not None and lease.id == lease_id


def grant(
    consumer: ConsumerState,
    *,
    lease_id: LeaseId,
    end: Offset,
    skipped: Ranges,
    now: Instant,
    seconds: int,
    oldest_at: Instant,
    next_at: Instant,
) -> ConsumerState:
    """Lease the run up to ``end``; ``skipped`` are offsets in it that hold nothing to deliver.

    ``oldest_at`` is when the first of the run was pushed, ``next_at`` when what follows it was.
    """
    return replace(
        consumer,
        version=consumer.version + 1,
        acked=ranges.union(consumer.acked, skipped),
        run_end=end,
        attempt=consumer.next_attempt,
        retries=consumer.retries if consumer.comes_again else 0,
        ready_at=0,
        oldest_at=oldest_at,
        lease=Lease(lease_id, now, now + seconds * SECOND, next_at),
        failed=(),
    )


def extend(consumer: ConsumerState, *, seconds: int, now: Instant) -> ConsumerState:
    """Keep a live lease for at least ``seconds`` from now; it is never shortened."""
    lease = consumer.lease
    if lease is None:
        return consumer
    until = max(lease.expires_at, now + seconds * SECOND)
    return replace(consumer, version=consumer.version + 1, lease=replace(lease, expires_at=until))


def release(consumer: ConsumerState) -> ConsumerState:
    """Give the lease back as if it had expired: what was acked stays acked."""
    return replace(consumer, version=consumer.version + 1, lease=None, failed=())


def pass_over(
    consumer: ConsumerState,
    start: Offset,
    end: Offset,
    *,
    consumed: int,
    now: Instant,
    oldest_at: Instant,
) -> ConsumerState:
    """Be done with ``start`` to ``end`` without a lease; ``consumed`` of it was delivered."""
    done = ranges.union(consumer.acked, ((start, end),))
    cursor, acked = ranges.advance(consumer.cursor, done)
    return replace(
        consumer,
        version=consumer.version + 1,
        cursor=cursor,
        acked=acked,
        run_end=0,
        attempt=0,
        retries=0,
        ready_at=0,
        oldest_at=oldest_at,
        lease=None,
        failed=(),
        messages_consumed=consumer.messages_consumed + consumed,
        batches_consumed=consumer.batches_consumed + bool(consumed),
        last_consumed_at=now,
    )


def seek(consumer: ConsumerState, cursor: Offset, *, oldest_at: Instant) -> ConsumerState:
    """Start again at ``cursor``, forgetting leases, acks and failures."""
    return ConsumerState(
        version=consumer.version + 1,
        cursor=cursor,
        oldest_at=oldest_at,
        messages_consumed=consumer.messages_consumed,
        batches_consumed=consumer.batches_consumed,
        last_consumed_at=consumer.last_consumed_at,
    )


def from_start(consumer: ConsumerState, start: Offset) -> ConsumerState:
    """The state as of a partition that no longer keeps the offsets before ``start``."""
    if consumer.cursor >= start:
        return consumer
    cursor, acked = ranges.advance(start, consumer.acked)
    failed = tuple(failure for failure in consumer.failed if failure.offset >= cursor)
    return replace(consumer, cursor=cursor, acked=acked, failed=failed)


def missed(consumer: ConsumerState, start: Offset) -> int:
    """How many messages before ``start``, which are no longer kept, the group had not done."""
    if consumer.cursor >= start:
        return 0
    done = ranges.overlap(consumer.acked, consumer.cursor, start)
    return start - consumer.cursor - done


def bounded(consumer: ConsumerState, options: QueueOptions, now: Instant) -> ConsumerState:
    """The state after the wall clock was set back while no server used the store.

    A lease lasts no longer than it was granted for, a retry waits no longer than its delay,
    both counted from now.
    """
    lease = consumer.lease
    if lease is not None and lease.granted_at > now:
        until = now + lease.expires_at - lease.granted_at
        consumer = replace(consumer, lease=replace(lease, granted_at=now, expires_at=until))
    latest = latest_retry_at(options, retries=consumer.retries, now=now)
    if consumer.ready_at > latest:
        consumer = replace(consumer, ready_at=latest)
    return consumer
