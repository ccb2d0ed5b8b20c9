"""Which partition is ready, for whom, and when the others will be."""

import heapq
from collections.abc import Mapping
from itertools import count

from skep.core.eligibility import due_at
from skep.core.state import GroupState, PartitionState
from skep.core.waiting import Waiting
from skep.model.names import Instant
from skep.store.clock import Clock, Timer


class Scheduler:
    """Keeps the ready partitions of every group, and one timer for all that becomes ready later.

    A lease that runs out, a delay, a window and a retry are all the same here: an instant
    in the heap. So nothing needs to look for expired leases.
    """

    def __init__(
        self, clock: Clock, waiting: Waiting, partitions: Mapping[int, PartitionState]
    ) -> None:
        self._clock = clock
        self._partitions = partitions
        self._waiting = waiting
        self._heap: list[tuple[Instant, int, GroupState, PartitionState]] = []
        self._ties = count()
        self._timer: Timer | None = None
        self._timer_at: Instant = 0

    def refresh(self, group: GroupState, partition: PartitionState) -> None:
        """Look where a partition stands for a group, and act on it."""
        number = partition.number
        if number in group.claimed:
            return
        consumer = group.consumer(partition)
        due = due_at(
            group.queue.config.options, consumer, end=partition.end, newest_at=partition.newest_at
        )
        if due is None:
            group.ready.discard(number)
        elif due > self._clock.now():
            group.ready.discard(number)
            self.arm(group, partition, due)
        elif group.ready.add(number, consumer.oldest_at):
            self._wake(group, number)

    def arm(self, group: GroupState, partition: PartitionState, when: Instant) -> None:
        """Refresh again at ``when``, unless that happens earlier anyway."""
        armed = group.armed.get(partition.number)
        if armed is not None and armed <= when:
            return
        group.armed[partition.number] = when
        heapq.heappush(self._heap, (when, next(self._ties), group, partition))
        self._set_timer()

    def next_for(self, group: GroupState) -> PartitionState | None:
        """Take the ready partition that waits longest out, if there is one."""
        number = group.ready.take()
        return None if number is None else self._partitions[number]

    def close(self) -> None:
        if self._timer:
            self._timer.cancel()

    def _wake(self, group: GroupState, number: int) -> None:
        place = group.queue.config.number, group.name
        self._waiting.wake((*place, number)) or self._waiting.wake(place)

    def _set_timer(self) -> None:
        when = self._heap[0][0]
        if self._timer and self._timer_at <= when:
            return
        if self._timer:
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._clock.call_at(when, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = self._clock.now()
        while self._heap and self._heap[0][0] <= now:
            when, _, group, partition = heapq.heappop(self._heap)
            if group.armed.get(partition.number) == when:
                del group.armed[partition.number]
                self.refresh(group, partition)
        if self._heap:
            self._set_timer()
