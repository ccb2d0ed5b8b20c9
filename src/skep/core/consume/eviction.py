"""Giving up messages that waited longer than their queue allows."""

from skep.core.log.committer import Committer
from skep.core.log.segment_reader import SegmentReader
from skep.core.rules import lease as leases
from skep.core.rules.eligibility import EXCEEDED_WAIT, too_late, waited_too_long
from skep.core.state.queue_state import GroupState, PartitionState
from skep.core.state.registry import Registry
from skep.model import ranges
from skep.model.change import Applied, Change
from skep.model.queue import Removal
from skep.model.segment import DELETED, Segment
from skep.store.protocol import Store

STEP = 500
"""Messages given up in one change."""

EVICTED = "evicted"


class Evictor:
    def __init__(
        self,
        store: Store,
        registry: Registry,
        committer: Committer,
        segment_reader: SegmentReader,
    ) -> None:
        self._store = store
        self._registry = registry
        self._committer = committer
        self._segment_reader = segment_reader

    async def evict(self, group: GroupState, partition: PartitionState) -> int:
        """Make dead letters of what waited too long for this group; return how many.

        What is under a lease was delivered in time, so a leased partition is left alone.
        """
        evicted = 0
        while (options := group.queue.config.options).max_wait_time_seconds and not group.removed:
            consumer = group.consumer(partition)
            now = self._store.clock.now()
            if consumer.live_lease(now) or not waited_too_long(options, consumer.oldest_at, now):
                break
            segments = await self._segment_reader.segments(
                partition, consumer.cursor, messages=STEP, size=1 << 20
            )
            late = too_late(options, segments, now)
            if not late:
                if segments:
                    self._registry.adjust(group, partition, oldest_at=segments[0].created_at)
                break
            evicted += await self._give_up(group, partition, late)
        if evicted:
            await self._store.record_removal(
                Removal(
                    queue=group.queue.config.number,
                    partition=partition.number,
                    kind=EVICTED,
                    messages=evicted,
                    executed_at=self._store.clock.now(),
                )
            )
        return evicted

    async def _give_up(
        self, group: GroupState, partition: PartitionState, late: list[Segment]
    ) -> int:
        consumer = group.consumer(partition)
        end = min(late[-1].end, consumer.cursor + STEP)
        deleted = {o for s in late for o in range(s.start, s.end) if s.flag(o) & DELETED}
        undone = ranges.missing(consumer.acked, consumer.cursor, end)
        lost = [offset for offset in undone if offset not in deleted]
        passed = leases.pass_over(
            group.stored(partition),
            consumer.cursor,
            end,
            consumed=0,
            now=self._store.clock.now(),
            oldest_at=late[-1].created_at,
        )
        letters = tuple(
            group.give_up(partition, offset, error=EXCEEDED_WAIT, attempts=consumer.attempt)
            for offset in lost
        )
        update = group.update(partition, passed, expected=consumer.revision)
        outcome = await self._committer.submit(
            Change(consumers=(update,), dead_letters=letters, queues=group.queue.versions)
        )
        return len(lost) if isinstance(outcome, Applied) else 0
