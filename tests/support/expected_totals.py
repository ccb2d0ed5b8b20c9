"""The totals of queues and groups, counted message by message and partition by partition."""

from datetime import datetime

from skep import Broker
from skep.core.state.message_status import is_done, is_held, status_for, status_of
from skep.core.state.queue_state import GroupState, PartitionState, QueueState
from skep.model.name import Instant, to_datetime
from skep.model.stats import Counts, GroupLag, LeaseCounts, PartitionLag


async def check_totals(broker: Broker, *queues: str) -> None:
    """Every total that a broker tells of some queues is what the loop over them gives."""
    for name in queues:
        await _check_queue(broker, name)
    found = await broker.insight.queues.find(lambda name: name in queues)
    states = [_state(broker, name) for name in queues]
    told = await broker.insight.queues.leases(found)
    assert told == _leases(states, broker.insight.clock.now())


async def _check_queue(broker: Broker, name: str) -> None:
    summary = await broker.insight.queues.queue(name)
    state, now = _state(broker, name), broker.insight.clock.now()
    letters = Counts(dead_letters=summary.counts.dead_letters)
    assert summary.counts == _counts(state, now) + letters
    consumed = [each for group in state.groups.values() for each in group.consumers.values()]
    assert summary.messages_consumed == sum(each.messages_consumed for each in consumed)
    assert summary.batches_consumed == sum(each.batches_consumed for each in consumed)
    listed = {lag.group: lag for lag in await broker.groups.list(name)}
    assert set(listed) == set(state.groups)
    for group in list(state.groups.values()):
        await _check_group(broker, group, listed[group.name])


async def _check_group(broker: Broker, group: GroupState, listed: GroupLag) -> None:
    queue = group.queue.config.name
    lags = list(await broker.groups.lag(queue, group.name))
    waiting = [lag for lag in lags if lag.backlog]
    leases = [lag.worker_id for lag in lags if lag.leased]
    told = await broker.insight.groups.group(queue, group.name)
    for lag in (listed, told):
        assert lag.backlog == sum(each.backlog for each in waiting)
        assert lag.partitions_with_backlog == len(waiting)
        assert lag.leased_partitions == len(leases)
        assert lag.members == len(set(leases))
        assert lag.partitions == len(group.consumers)
    known = [each.oldest_at for each in waiting if each.oldest_at]
    assert listed.oldest_at == min(known, default=None)
    assert told.oldest_at == await _oldest(broker, waiting)
    depth = await broker.insight.groups.backlog(queue, group.name, limit=2)
    assert (depth.backlog, depth.partitions_with_backlog) == (listed.backlog, len(waiting))
    assert depth.partitions == [(each.partition, each.backlog) for each in waiting[:2]]


async def _oldest(broker: Broker, waiting: list[PartitionLag]) -> datetime | None:
    """When the oldest message was pushed, of those that by what is known may be the oldest."""
    oldest: datetime | None = None
    ages = sorted((lag.oldest_at, lag.number, lag) for lag in waiting if lag.oldest_at)
    for known, _, lag in ages:
        if oldest is None or known < oldest:
            pushed_at = await _pushed_at(broker, lag)
            oldest = pushed_at if oldest is None else min(oldest, pushed_at)
    return oldest


async def _pushed_at(broker: Broker, lag: PartitionLag) -> datetime:
    (segment,) = await broker._store.read(lag.number, lag.cursor, messages=1, size=1)
    return to_datetime(segment.created_at)


def _state(broker: Broker, name: str) -> QueueState:
    return broker._parts.registry.queue(name)


def _counts(queue: QueueState, now: Instant) -> Counts:
    counts = Counts()
    for partition in queue.partitions.values():
        for offset in range(partition.start, partition.end):
            counts += _count(queue, partition, offset, now)
    return counts


def _count(queue: QueueState, partition: PartitionState, offset: int, now: Instant) -> Counts:
    states = [group.consumer(partition) for group in queue.groups.values()]
    status = status_of([status_for(state, offset, now) for state in states])
    failed = any(
        state.retries and offset < state.run_end and not is_done(state, offset)
        for state in states
        if not state.live_lease(now)
    )
    return Counts(
        total=1,
        pending=status == "pending",
        processing=status == "processing",
        failed=failed and status == "pending",
    )


def _leases(queues: list[QueueState], now: Instant) -> LeaseCounts:
    found = LeaseCounts()
    ids: set[str] = set()
    for queue in queues:
        for group in queue.groups.values():
            for partition in queue.partitions.values():
                state = group.consumer(partition)
                if lease := state.live_lease(now):
                    ids.add(lease.id)
                    offsets = range(partition.start, partition.end)
                    found = LeaseCounts(
                        active=len(ids),
                        partitions=found.partitions + 1,
                        held=found.held + sum(is_held(state, each, now) for each in offsets),
                        acked=found.acked + lease.completed,
                    )
    return found
