"""Which partition is ready, for whom, and when the others will be."""

import heapq
from collections.abc import Mapping
from functools import partial
from itertools import count

from skep.core.rules.eligibility import due_at
from skep.core.state.queue_state import GroupState, PartitionState, ReadyQueue
from skep.core.state.waiters import Waiters
from skep.model.name import Instant
from skep.store.clock import Clock, Timer

_SLACK = 100
"""Cancelled timers that the heap may contain beyond the number of live ones."""


class Scheduler:
    """Keeps the ready partitions of every group, and one timer for all that becomes ready later.

    A lease that runs out, a delay, a window and a retry are all the same here: an instant
    in the heap. So nothing needs to look for expired leases.
    """

    def __init__(
        self, clock: Clock, waiting: Waiters, partitions: Mapping[int, PartitionState]
    ) -> None:
        self._clock = clock
        self._partitions = partitions
        self._waiting = waiting
        self._heap: list[tuple[Instant, int, GroupState, PartitionState]] = []
        self._ties = count()
        self._timer: Timer | None = None
        self._timer_at: Instant = 0
        self._armed = 0

    def refresh(self, group: GroupState, partition: PartitionState) -> None:
        """Look where a partition stands for a group, and act on it."""
        number = partition.number
        if group.removed or group.starting or number in group.claimed:
            return
        if partition.changing:
            group.ready.discard(number)
            return
        consumer = group.consumer(partition)
        due = due_at(
            group.queue.config.options, consumer, end=partition.end, newest_at=partition.newest_at
        )
        until = due
        if due is None and consumer.lease is not None:
            # Nothing is left to deliver, but the totals count the lease until it ends.
            until = consumer.lease.expires_at
            group.queue.changed.add(partition)
        if until is not None and until > self._clock.now():
            group.ready.discard(number)
            self._arm(group, partition, until)
            return
        self._disarm(group, number)
        if due is None:
            group.ready.discard(number)
        elif group.ready.add(number, consumer.oldest_at):
            # Among others because a lease has ended, which the totals have to learn.
            group.queue.changed.add(partition)
            self._wake(group, number)

    def next_for(self, group: GroupState) -> PartitionState | None:
        """Take the ready partition that waits longest out, if there is one."""
        number = group.ready.take()
        return None if number is None else self._partitions.get(number)

    def forget(self, group: GroupState) -> None:
        """Drop a group that was removed, and wake the requests that wait for it."""
        group.removed = True
        self._waiting.wake_group(group.queue.config.number, group.name)
        self._armed -= len(group.armed)
        group.armed, group.ready = {}, ReadyQueue()
        self._throw_out()

    def close(self) -> None:
        if self._timer:
            self._timer.cancel()

    def _arm(self, group: GroupState, partition: PartitionState, when: Instant) -> None:
        """Refresh again at ``when``, unless that happens earlier anyway."""
        armed = group.armed.get(partition.number)
        if armed is not None and armed <= when:
            return
        self._armed += armed is None
        group.armed[partition.number] = when
        heapq.heappush(self._heap, (when, next(self._ties), group, partition))
        self._set_timer()

    def _disarm(self, group: GroupState, number: int) -> None:
        """Forget a timer; it stays in the heap until it is thrown out."""
        if group.armed.pop(number, None) is None:
            return
        self._armed -= 1
        if not group.armed:
            group.armed = {}
        self._throw_out()

    def _throw_out(self) -> None:
        """Leave no more dead timers in the heap than live ones: each keeps its group in memory."""
        if len(self._heap) > 2 * self._armed + _SLACK:
            self._heap = [e for e in self._heap if e[2].armed.get(e[3].number) == e[0]]
            heapq.heapify(self._heap)

    def _wake(self, group: GroupState, number: int) -> None:
        place = group.queue.config.number, group.name
        pass_on = partial(self._pass_on, group, number)
        self._waiting.wake((*place, number), pass_on) or self._waiting.wake(place, pass_on)

    def _pass_on(self, group: GroupState, number: int) -> None:
        """Wake another request if the one that was woken for a partition did not take it."""
        if number in group.ready:
            self._wake(group, number)

    def _set_timer(self) -> None:
        if not self._heap:
            return
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
                self._disarm(group, partition.number)
                self.refresh(group, partition)
        self._set_timer()
