"""How far a group is, computed from its states."""

from skep.core.state.queue_state import GroupState, PartitionState
from skep.model.lease_id import worker_id_of
from skep.model.name import Instant, to_datetime
from skep.model.stats import GroupLag, PartitionLag


def partition_lag(group: GroupState, partition: PartitionState, now: Instant) -> PartitionLag:
    consumer = group.consumer(partition)
    backlog = group.pending(partition)
    lease = consumer.live_lease(now)
    return PartitionLag(
        partition=partition.name,
        number=partition.number,
        cursor=consumer.cursor,
        end=partition.end,
        backlog=backlog,
        leased=lease is not None,
        worker_id=worker_id_of(lease.id) if lease else None,
        lease_expires_at=to_datetime(lease.expires_at) if lease else None,
        attempt=consumer.attempt,
        oldest_at=to_datetime(group.oldest_at(partition, consumer)) if backlog else None,
        last_consumed_at=to_datetime(consumer.last_consumed_at)
        if consumer.last_consumed_at
        else None,
        messages_consumed=consumer.messages_consumed,
        batches_consumed=consumer.batches_consumed,
    )


def group_lag(group: GroupState) -> GroupLag:
    """How far a group is in a queue, once its totals are up to date."""
    totals, subscription = group.totals, group.subscription
    start, oldest_at = subscription.from_at, totals.oldest_at()
    return GroupLag(
        queue=group.queue.config.name,
        group=group.name,
        subscription_mode=subscription.mode,
        subscription_from=None if start is None else to_datetime(start),
        subscribed_at=to_datetime(subscription.created_at),
        partitions=len(group.consumers),
        backlog=group.backlog - group.acked,
        partitions_with_backlog=len(totals.waiting),
        leased_partitions=len(totals.leased),
        members=len(totals.leases),
        oldest_at=None if oldest_at is None else to_datetime(oldest_at),
    )
