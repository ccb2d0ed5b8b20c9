"""The queues, partitions and groups that this process knows: find them, apply commits."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any
from uuid import UUID

from msgspec.structs import replace

from skep.core.aio import yielding
from skep.core.rules import lease as leases
from skep.core.state.background_loader import Refresher
from skep.core.state.lease_table import LeaseTable
from skep.core.state.queue_state import GroupState, PartitionState, QueueState
from skep.core.state.scheduler import Scheduler
from skep.core.state.segment_cache import SegmentCache
from skep.core.state.waiters import ANY_QUEUE, Waiters, journal_of
from skep.errors import Closed, GroupNotFound, MessageNotFound, PartitionNotFound, QueueNotFound
from skep.model.address import address_of
from skep.model.change import Applied, Change, Commit
from skep.model.consumer import ConsumerState
from skep.model.name import RESERVED, SECOND, Offset, check_id, check_text
from skep.model.queue import Partition, Queue, Subscription
from skep.store.clock import Clock

_SKEW = SECOND
"""By how much the clocks of servers may differ, as each of them knows that of the store."""


class Registry:
    """Finds queues, partitions and groups, and wakes requests that wait for a change of one.

    ``apply`` is called with every commit of this process, ``apply_consumer`` and ``adopt`` with
    what other servers stored.
    """

    def __init__(
        self, clock: Clock, cache: SegmentCache, lease_table: LeaseTable, waiters: Waiters
    ) -> None:
        self.closed = False
        self._clock = clock
        self.dropped: deque[int | str] = deque(maxlen=1000)
        """Numbers of deleted queues and ids of deleted subscriptions; reads may be older."""
        self._freeing: set[asyncio.Task[None]] = set()
        self.queues: dict[str, QueueState] = {}
        self.by_number: dict[int, QueueState] = {}
        self.deleting: set[str] = set()
        """Names of queues that are hidden because they are being deleted, which may fail."""
        self.partitions: dict[int, PartitionState] = {}
        self._cache = cache
        self._lease_table = lease_table
        self._waiters = waiters
        self.scheduler = Scheduler(clock, waiters, self.partitions)
        self._refresher = Refresher(self.scheduler.refresh, self.wake_group)

    def close(self) -> None:
        """Reject further requests, and return every waiting long poll empty."""
        self.closed = True
        self.scheduler.close()
        self._waiters.close()
        self._refresher.stop()

    def check_open(self) -> None:
        if self.closed:
            raise Closed

    def release(self) -> None:
        """Let go of all partitions, when nothing is committed any more."""
        for queue in self.queues.values():
            queue.release()
            queue.partitions = {}

    def is_refreshing(self, group: GroupState) -> bool:
        """Whether it is not known yet of all partitions of a group whether they are ready."""
        return group in self._refresher

    # Finding.

    def queue(self, name: str) -> QueueState:
        """A queue of a client; raises ``QueueNotFound`` if there is none, or if it is ours."""
        found = self.any_queue(name)
        if name.startswith(RESERVED):
            raise QueueNotFound(name)
        return found

    def any_queue(self, name: str) -> QueueState:
        self.check_open()
        found = self.queues.get(check_text("queue", name))
        if found is None:
            raise QueueNotFound(name)
        return found

    def visible_queues(self, visible: Callable[[str], bool] | None = None) -> list[QueueState]:
        """The queues that a caller may see, by name, without the broker's own."""
        self.check_open()
        return [
            state
            for name, state in sorted(self.queues.items())
            if not name.startswith(RESERVED) and (visible is None or visible(name))
        ]

    def matching(self, namespace: str | None, task: str | None) -> list[QueueState]:
        """The queues with these labels, the highest priority first, then by name."""
        found = [
            state
            for state in self.queues.values()
            if not state.config.name.startswith(RESERVED)
            and (namespace is None or state.config.namespace == namespace)
            and (task is None or state.config.task == task)
        ]
        return sorted(found, key=lambda q: (-q.config.options.priority, q.config.name))

    def partition(self, queue: str, name: str) -> PartitionState:
        found = self.queue(queue).partitions.get(check_text("partition", name))
        if found is None:
            raise PartitionNotFound(queue, name)
        return found

    def partitions_of(self, queue: str, only: str | None) -> list[PartitionState]:
        """All partitions of a queue, or one that is named."""
        if only is not None:
            return [self.partition(queue, only)]
        return list(self.queue(queue).partitions.values())

    def group(self, queue: str, name: str) -> GroupState:
        found = self.queue(queue).groups.get(check_text("group", name))
        if found is None:
            raise GroupNotFound(queue, name)
        return found

    def is_known(self, queue: QueueState) -> bool:
        """False if a queue was deleted, perhaps while the store was asked for something of it."""
        return self.by_number.get(queue.config.number) is queue

    def find_partition(self, number: int) -> PartitionState | None:
        """A partition by its number; None if there is none, or if its queue was deleted.

        The partitions of a deleted queue leave ``partitions`` in the background.
        """
        found = self.partitions.get(number)
        return found if found is not None and self.is_known(found.queue) else None

    def locate(self, message_id: UUID) -> tuple[PartitionState, Offset]:
        """Where a message is kept; raises ``MessageNotFound`` if it is not kept any more."""
        self.check_open()
        number, offset = address_of(check_id("message_id", message_id))
        partition = self.find_partition(number)
        if partition is None or not partition.start <= offset < partition.end:
            raise MessageNotFound(str(message_id))
        return partition, offset

    # What there is.

    def add_queue(self, config: Queue) -> QueueState:
        queue = self.queues[config.name] = self.by_number[config.number] = QueueState(config)
        self._waiters.wake_all(config.name)
        self._waiters.wake_all(ANY_QUEUE)
        return queue

    def reconfigure(self, queue: QueueState, config: Queue) -> None:
        queue.configure(config)
        self.refresh_queue(queue)
        self._waiters.wake_all(ANY_QUEUE)

    def drop_queue(self, queue: QueueState) -> None:
        """Forget a deleted queue; its partitions are freed in the background."""
        self.hide_queue(queue)
        self.dismantle(queue)

    def hide_queue(self, queue: QueueState) -> None:
        """Make a queue unknown, by its name and by its number."""
        del self.queues[queue.config.name]
        del self.by_number[queue.config.number]
        self.dropped.append(queue.config.number)

    def undrop(self, identity: int | str) -> None:
        """What could not be deleted exists; many others may have been deleted since."""
        with suppress(ValueError):
            self.dropped.remove(identity)

    def show_queue(self, queue: QueueState) -> bool:
        """Let a queue be found again that could not be deleted; False if another has its name."""
        if self.queues.setdefault(queue.config.name, queue) is not queue:
            return False
        self.by_number[queue.config.number] = queue
        self.undrop(queue.config.number)
        self._waiters.wake_all(queue.config.name)
        self._waiters.wake_all(ANY_QUEUE)
        return True

    def dismantle(self, queue: QueueState) -> None:
        """Deliver nothing of a hidden queue any more; its memory is freed in the background."""
        groups = list(queue.groups.values())
        for group in groups:
            self.scheduler.forget(group)
        self._free_later(self._free(queue, groups))

    def _free_later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._freeing.add(task)
        task.add_done_callback(self._freeing.discard)

    async def _free(self, queue: QueueState, groups: list[GroupState]) -> None:
        """In slices: freeing a million partitions at once would block the event loop."""
        queue.release()
        async for _ in yielding(iter(queue.partitions.__len__, 0)):
            _, partition = queue.partitions.popitem()
            # After a failover the same partition is loaded again under its number.
            if self.partitions.get(partition.number) is partition:
                del self.partitions[partition.number]
            for group in groups:
                self._end_state(group, partition)

    def _end_state(self, group: GroupState, partition: PartitionState) -> None:
        state = group.consumers.pop(partition.number, None)
        if state is not None and state.lease is not None:
            self._lease_table.end(state.lease.id, (group, partition), own=False)

    def adopt(self, queue: QueueState, stored: Partition) -> None:
        """Know a partition as it is stored, which may be more than is known of it."""
        self.announce(self.merge(queue, stored))

    def announce(self, partition: PartitionState) -> None:
        """Wake the requests that wait for a partition."""
        queue = partition.queue
        self._wake_readers(queue)
        for group in queue.groups.values():
            self._waiters.wake_all((queue.config.number, group.name, partition.name))
            self.scheduler.refresh(group, partition)

    def merge(self, queue: QueueState, stored: Partition) -> PartitionState:
        before = queue.partitions.get(stored.name)
        if before is not None and before.number != stored.number:
            self.drop_partition(before)
        known = self.partitions[stored.number] = queue.add(stored)
        if stored.start > known.start:
            known.truncate(stored.start, stored.first_at)
        if stored.end > known.end:
            known.grow(stored.end, stored.newest_at)
        if stored.start == known.start and stored.end > stored.start:
            known.first_at = stored.first_at
        return known

    def drop_partition(self, partition: PartitionState) -> None:
        if self.partitions.pop(partition.number, None) is None:
            return
        queue = partition.queue
        for group in queue.groups.values():
            self.forget_consumer(group, partition)
            group.backlog -= partition.end - partition.start
            group.ready.discard(partition.number)
        queue.kept -= partition.end - partition.start
        queue.changed.add(partition)
        queue.remove(partition)

    def add_group(
        self, queue: QueueState, subscription: Subscription, *, starting: bool = False
    ) -> GroupState:
        """Know a group. One that is ``starting`` is refreshed when its cursors are known."""
        group = queue.groups[subscription.group] = GroupState(queue, subscription)
        group.starting = starting
        if not starting:
            self.refresh_group(group)
        return group

    def drop_group(self, group: GroupState) -> None:
        """Forget a group; its memory is freed in the background."""
        queue, totals = group.queue, group.totals
        del queue.groups[group.name]
        queue.totals.uncounted.extend(totals.waiting)
        queue.totals.uncounted.extend(totals.leased)
        self.dropped.append(group.subscription.id)
        self.scheduler.forget(group)
        self._free_later(self._free_group(group))

    async def _free_group(self, group: GroupState) -> None:
        async for _ in yielding(iter(group.consumers.__len__, 0)):
            number, state = group.consumers.popitem()
            partition = self.partitions.get(number)
            if state.lease and partition:
                self._lease_table.end(state.lease.id, (group, partition), own=False)
        async for _ in yielding(iter(group.totals.waiting.__len__, 0)):
            group.totals.waiting.popitem()

    def apply_consumer(
        self, group: GroupState, partition: PartitionState, state: ConsumerState, *, own: bool
    ) -> None:
        """Apply a state that is stored, if it is newer than the known one."""
        if self.take_over(group, partition, self.bounded(group, state), own=own):
            self.scheduler.refresh(group, partition)

    def take_over(
        self, group: GroupState, partition: PartitionState, state: ConsumerState, *, own: bool
    ) -> bool:
        known = group.consumers.get(partition.number)
        if known is not None and known.version >= state.version:
            return False
        self._put(group, partition, state, own=own)
        return True

    def bounded(self, group: GroupState, state: ConsumerState) -> ConsumerState:
        """A state that was written by a clock which was set back since must not last that long."""
        now = self._clock.now()
        is_ahead = state.lease is not None and state.lease.granted_at > now + _SKEW
        if is_ahead or state.ready_at > now + _SKEW:
            return leases.bounded(state, group.queue.config.options, now)
        return state

    def forget_consumer(self, group: GroupState, partition: PartitionState) -> None:
        """A state was deleted: the group starts again at the beginning of the partition."""
        state = group.consumers.get(partition.number)
        if state is None:
            return
        if state.lease:
            self._lease_table.end(state.lease.id, (group, partition), own=False)
        group.put(partition, ConsumerState(cursor=partition.start, oldest_at=partition.first_at))
        del group.consumers[partition.number]

    # Applying commits.

    def apply(self, changes: list[Change], commit: Commit) -> None:
        for segment in commit.segments:
            partition = self.partitions.get(segment.partition)
            if partition is not None:
                self._cache.append(segment)
                # An event may have announced what another server appended behind it.
                if segment.end > partition.end:
                    partition.grow(segment.end, segment.created_at, start=segment.start)
                self.refresh_grown(partition)
        for change, outcome in zip(changes, commit.outcomes, strict=True):
            if isinstance(outcome, Applied) and not outcome.repeated:
                self._apply_consumers(change)

    def wake_group(self, group: GroupState) -> None:
        """Everything is known of a group: wake the requests that wait for it."""
        self._waiters.wake_group(group.queue.config.number, group.name)

    def refresh_grown(self, partition: PartitionState) -> None:
        self.refresh_partition(partition)
        self._wake_readers(partition.queue)

    def _wake_readers(self, queue: QueueState) -> None:
        queue.grown += 1
        self._waiters.wake_all(journal_of(queue.config.number))

    def refresh_partition(self, partition: PartitionState) -> None:
        for group in partition.queue.groups.values():
            self.scheduler.refresh(group, partition)

    def refresh_queue(self, queue: QueueState) -> None:
        for group in queue.groups.values():
            self.refresh_group(group)

    def refresh_group(self, group: GroupState) -> None:
        """Look at all its partitions again; at those of a large queue in the background."""
        self._refresher.add(group)

    def adjust(self, group: GroupState, partition: PartitionState, **hints: int) -> None:
        """Note something about a group's state that is true, and not worth a write."""
        known = group.consumers.get(partition.number) or group.consumer(partition)
        group.consumers[partition.number] = replace(known, **hints)
        group.queue.changed.add(partition)

    def _apply_consumers(self, change: Change) -> None:
        for update in change.consumers:
            partition = self.partitions.get(update.partition)
            group = partition and partition.queue.groups.get(update.group)
            if partition and group:
                self._put(group, partition, update.state, own=update.lease is not None)
                self.scheduler.refresh(group, partition)

    def _put(
        self, group: GroupState, partition: PartitionState, state: ConsumerState, *, own: bool
    ) -> None:
        """Replace a state, on behalf of the holder of its lease (``own``) or of another."""
        before = group.consumers.get(partition.number)
        self._lease_table.apply((group, partition), before, state, own=own)
        group.put(partition, state)
