"""Keeping the totals of queues and groups, without a loop over all partitions.

A partition that changes is noted by what changes it. It is counted again when totals are asked
for, or in the background when many have changed.
"""

import logging

from skep.core.aio import PeriodicTask, next_slice, yielding
from skep.core.state import message_status as standing
from skep.core.state.queue_state import GroupState, PartitionState, QueueState
from skep.core.state.registry import Registry
from skep.core.state.totals import Held, age_of
from skep.model.consumer import ConsumerState
from skep.model.name import Instant
from skep.model.ranges import complement, size
from skep.model.stats import Counts
from skep.store.clock import Clock

COUNT_SECONDS = 1.0
"""How often it is looked whether many partitions have changed."""

_MANY = 5000
"""Up to this many changed partitions are left to the next request for totals: milliseconds."""

_STEP = 500
_log = logging.getLogger("skep.counting")


class TotalsUpdater:
    def __init__(self, clock: Clock, registry: Registry) -> None:
        self._clock = clock
        self._registry = registry
        self._repeating = PeriodicTask(self._count_many, "could not count totals, retrying", _log)

    def start(self, interval: float) -> None:
        self._repeating.start(interval)

    async def stop(self) -> None:
        await self._repeating.stop()

    async def counts(self, queue: QueueState) -> Counts:
        """The messages of a queue by their status, without dead letters."""
        await self.catch_up(queue)
        if not queue.groups:
            return Counts(total=queue.kept, pending=queue.kept)
        totals = queue.totals
        return Counts(
            total=queue.kept,
            pending=totals.pending,
            processing=totals.processing,
            failed=totals.failed,
        )

    async def catch_up(self, queue: QueueState) -> None:
        """Count every partition of a queue that has changed before the call, in steps."""
        for _ in range(_uncounted(queue) // _STEP):
            self._step(queue)
            await next_slice()
        self._step(queue)

    async def _count_many(self) -> None:
        async for queue in yielding(list(self._registry.queues.values())):
            if _uncounted(queue) > _MANY:
                await self.catch_up(queue)

    def _step(self, queue: QueueState) -> None:
        uncounted = queue.totals.uncounted
        now = self._clock.now()
        for _ in range(_STEP):
            if not uncounted:
                if not queue.changed:
                    return
                uncounted.extend(queue.changed)
                queue.changed = set()
            partition = uncounted.popleft()
            queue.changed.discard(partition)
            _count(queue, partition, now)


def _uncounted(queue: QueueState) -> int:
    return len(queue.changed) + len(queue.totals.uncounted)


def _count(queue: QueueState, partition: PartitionState, now: Instant) -> None:
    groups = queue.groups.values()
    if _has_nothing(queue, partition):
        for group in groups:
            group.totals.put(partition, None, None)
        queue.totals.put(partition, 0, 0, 0)
        return
    states = [group.consumer(partition) for group in groups]
    for group, state in zip(groups, states, strict=True):
        _count_group(group, partition, state, now)
    counts = standing.count_states(partition, states, now)
    queue.totals.put(partition, counts.pending, counts.processing, counts.failed)


def _has_nothing(queue: QueueState, partition: PartitionState) -> bool:
    """Whether a partition was deleted, or every group has read it and no lease is on it."""
    number, end = partition.number, partition.end
    for group in queue.groups.values():
        state = group.consumers.get(number)
        if state is None or state.cursor < end or state.lease is not None:
            return queue.partitions.get(partition.name) is not partition
    return True


def _count_group(
    group: GroupState, partition: PartitionState, state: ConsumerState, now: Instant
) -> None:
    age = held = None
    if partition.end - state.cursor > size(state.acked):
        age = age_of(group.oldest_at(partition, state), partition.number)
    if lease := state.live_lease(now):
        run = complement(state.acked, state.cursor, state.run_end)
        held = Held(lease.id, size(run), lease.completed)
    group.totals.put(partition, age, held)
