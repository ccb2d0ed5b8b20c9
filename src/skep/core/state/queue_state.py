"""What the broker keeps in memory of queues, partitions and groups: a view of the store.

It is rebuilt from the store at the start and follows the commits afterwards. There is one
object per partition and one entry per partition and group, so their size matters.
"""

import heapq
from collections import deque
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from skep.core.rules import lease as leases
from skep.core.state.totals import GroupTotals, QueueTotals
from skep.model import ranges
from skep.model.change import ConsumerUpdate, GiveUp, QueueVersion
from skep.model.consumer import ConsumerState, Revision, new_token
from skep.model.name import Instant, LeaseId, Offset
from skep.model.queue import Partition, Queue, Subscription

_NUMBER = (1 << 64) - 1


class PartitionState(msgspec.Struct, gc=False, eq=False):
    """There may be a million of them: the garbage collector does not visit them.

    So a queue that is dropped must let go of its partitions.
    """

    queue: "QueueState"
    number: int
    name: str
    created_at: Instant
    start: Offset
    end: Offset
    first_at: Instant
    newest_at: Instant
    changing: bool = False
    """Its beginning is being removed: what is in the store is not what we know of it."""

    @staticmethod
    def of(queue: "QueueState", stored: Partition) -> "PartitionState":
        # Equal instants share an object, as they mostly do in a partition with one message.
        newest_at = stored.first_at if stored.newest_at == stored.first_at else stored.newest_at
        return PartitionState(
            queue,
            stored.number,
            stored.name,
            stored.created_at,
            stored.start,
            stored.end,
            stored.first_at,
            newest_at,
        )

    def grow(self, end: Offset, created_at: Instant, *, start: Offset | None = None) -> None:
        """Messages were appended up to ``end``: at ``created_at`` from ``start`` on.

        Without ``start`` that is known of the last one only. What other servers appended before
        may not be known yet. It is not older than what is.
        """
        before, floor = self.end, self.newest_at or self.created_at
        start = end - 1 if start is None else start
        if self.start == before:
            self.first_at = created_at if start <= before else floor
        self.end, self.newest_at = end, created_at
        queue = self.queue
        queue.kept += end - before
        queue.changed.add(self)
        for group in queue.groups.values():
            group.follow(self, before, start, floor)

    def truncate(self, start: Offset, first_at: Instant) -> None:
        groups = list(self.queue.groups.values())
        before = [group.consumer(self) for group in groups]
        self.queue.kept -= start - self.start
        self.start, self.first_at = start, first_at
        for group, state in zip(groups, before, strict=True):
            group.note(self, state, group.consumer(self))


class Chain:
    """Updates of one state, each built on the one before, that are on their way to the store.

    When one of them is refused, nothing that was built on it can be applied: the chain is broken.
    """

    __slots__ = ("broken",)

    def __init__(self) -> None:
        self.broken = False


class Link(NamedTuple):
    """A submitted state, and the chain of updates that led to it."""

    state: ConsumerState
    chain: Chain


class GroupState:
    """A group in a queue: its state in each partition it has touched, and what is ready for it."""

    __slots__ = (
        "acked",
        "armed",
        "backlog",
        "batches_consumed",
        "claimed",
        "consumers",
        "messages_consumed",
        "name",
        "queue",
        "ready",
        "removed",
        "starting",
        "submitted",
        "subscription",
        "totals",
    )

    def __init__(self, queue: "QueueState", subscription: Subscription) -> None:
        self.queue = queue
        self.name = subscription.group
        self.subscription = subscription
        self.removed = False
        self.starting = False
        """Its first cursors are not known yet: nothing may be delivered to it."""
        self.consumers: dict[int, ConsumerState] = {}
        self.submitted: dict[int, Link] = {}
        """States on their way to the store: the next decision builds on them."""
        self.ready = ReadyQueue()
        self.claimed: set[int] = set()
        """Partitions that an operation of this process is about to lease or release."""
        self.armed: dict[int, Instant] = {}
        """Partitions with a timer, and when it goes off."""
        self.backlog = queue.kept
        """Messages between the cursors and the ends."""
        self.acked = 0
        """Messages of the backlog that are done."""
        self.messages_consumed = 0
        self.batches_consumed = 0
        self.totals = GroupTotals[PartitionState]()
        queue.count_again()

    def consumer(self, partition: PartitionState) -> ConsumerState:
        """The state in a partition as of what the partition still keeps."""
        known = self.consumers.get(partition.number)
        if known is not None and known.cursor >= partition.start:
            return known
        return leases.from_start(self.stored(partition), partition.start)

    def stored(self, partition: PartitionState) -> ConsumerState:
        """The state as it is stored; where there is none yet the group starts at the beginning.

        Its cursor may be before the start of the partition. An update that delivers nothing
        leaves it there, so that the next delivery reports all that was removed unread.
        """
        known = self.consumers.get(partition.number)
        if known is None:
            return ConsumerState(cursor=partition.start, oldest_at=partition.first_at)
        return known

    def latest(self, partition: PartitionState) -> ConsumerState:
        """The state that the next update builds on: the one submitted last, if any."""
        link = self.submitted.get(partition.number)
        return self.stored(partition) if link is None or link.chain.broken else link.state

    def submit(self, partition: PartitionState, state: ConsumerState) -> Link:
        """Let the next update build on ``state``, which is on its way to the store."""
        before = self.submitted.get(partition.number)
        chain = Chain() if before is None or before.chain.broken else before.chain
        link = self.submitted[partition.number] = Link(state, chain)
        return link

    def settle(self, partition: PartitionState, link: Link, *, applied: bool) -> None:
        """A submitted state was applied, or it was refused, with all that is built on it."""
        if not applied:
            link.chain.broken = True
        last = self.submitted.get(partition.number)
        if last is link or (last is not None and last.chain.broken):
            del self.submitted[partition.number]

    def put(self, partition: PartitionState, state: ConsumerState) -> None:
        before = self.consumer(partition)
        self.consumers[partition.number] = state
        self.note(partition, before, leases.from_start(state, partition.start))

    def note(self, partition: PartitionState, before: ConsumerState, after: ConsumerState) -> None:
        """Count the difference that a change of a partition's state makes."""
        self.backlog -= after.cursor - before.cursor
        if before.acked or after.acked:
            self.acked += ranges.size(after.acked) - ranges.size(before.acked)
        self.messages_consumed += after.messages_consumed - before.messages_consumed
        self.batches_consumed += after.batches_consumed - before.batches_consumed
        self.queue.changed.add(partition)

    def update(
        self,
        partition: PartitionState,
        state: ConsumerState,
        *,
        expected: Revision | None = None,
        lease: LeaseId | None = None,
    ) -> ConsumerUpdate:
        """The write that makes ``state`` the group's, on top of the current one or ``expected``."""
        if expected is None:
            expected = self.consumer(partition).revision
        return ConsumerUpdate(
            queue=self.queue.config.number,
            partition=partition.number,
            group=self.name,
            subscription=self.subscription.id,
            expected=expected,
            state=replace(state, token=new_token()),
            lease=lease,
        )

    def give_up(
        self, partition: PartitionState, offset: Offset, *, error: str, attempts: int
    ) -> GiveUp:
        """The dead letter that a message becomes for this group."""
        return GiveUp(
            queue=self.queue.config.number,
            partition=partition.number,
            offset=offset,
            group=self.name,
            error=error,
            attempts=attempts,
        )

    def follow(
        self, partition: PartitionState, before: Offset, start: Offset, floor: Instant
    ) -> None:
        """Count what was appended to a partition from ``before`` on, and note its age.

        The age is exact if the group continues at ``start`` or after it. What is before that is
        not older than ``floor``.
        """
        self.backlog += partition.end - before
        known = self.consumers.get(partition.number)
        if known is None:
            return
        if known.cursor >= before:
            exact = partition.newest_at if known.cursor >= start else floor
            known = replace(known, oldest_at=exact)
        elif known.lease and known.run_end == before:
            exact = partition.newest_at if before >= start else floor
            known = replace(known, lease=replace(known.lease, next_at=exact))
        else:
            return
        self.consumers[partition.number] = known

    def oldest_at(self, partition: PartitionState, state: ConsumerState) -> Instant:
        """When the message at the cursor was pushed, or before that; exact if it is the last."""
        if partition.end - state.cursor == 1:
            return partition.newest_at
        return max(state.oldest_at, partition.first_at)

    def pending(self, partition: PartitionState) -> int:
        """Messages of a partition that the group is not done with."""
        consumer = self.consumer(partition)
        return partition.end - consumer.cursor - ranges.size(consumer.acked)


class QueueState:
    __slots__ = (
        "changed",
        "config",
        "groups",
        "grown",
        "kept",
        "listed",
        "loaded",
        "membership",
        "partitions",
        "totals",
        "versions",
    )

    def __init__(self, config: Queue) -> None:
        self.configure(config)
        self.partitions: dict[str, PartitionState] = {}
        self.membership = 0
        """How often a partition came or went."""
        self.listed: list[PartitionState] | None = None
        """The partitions by number, if they were listed since."""
        self.groups: dict[str, GroupState] = {}
        self.kept = 0
        """Messages in the log."""
        self.loaded = True
        """Whether all partitions that are stored are known."""
        self.grown = 0
        """How often something was found to have been appended."""
        self.totals = QueueTotals[PartitionState]()
        self.changed: set[PartitionState] = set()
        """Partitions that the totals do not reflect yet."""

    def configure(self, config: Queue) -> None:
        self.config = config
        self.versions = (QueueVersion(config.number, config.version),)
        """What a change that was decided on this configuration is based on."""

    def add(self, partition: Partition) -> PartitionState:
        known = self.partitions.get(partition.name)
        if known is None:
            known = self.partitions[partition.name] = PartitionState.of(self, partition)
            self._unlist()
            self.kept += partition.end - partition.start
            self.changed.add(known)
            for group in self.groups.values():
                group.backlog += partition.end - partition.start
        return known

    def remove(self, partition: PartitionState) -> None:
        del self.partitions[partition.name]
        self._unlist()

    def _unlist(self) -> None:
        self.membership += 1
        self.listed = None

    def release(self) -> None:
        """Release the totals: the garbage collector does not see the partitions in them."""
        self._unlist()
        self.changed = set()
        self.totals = QueueTotals()
        for group in self.groups.values():
            group.totals = GroupTotals()

    def count_again(self) -> None:
        """Let every partition be counted: what the totals reflect of any may be wrong."""
        self.totals.uncounted = deque(self.partitions.values())

    @property
    def depth(self) -> int:
        """Messages that some group still has to read; all that are kept if there is no group."""
        if not self.groups:
            return self.kept
        return max(group.backlog for group in self.groups.values())

    def room(self) -> int | None:
        """How many messages may be pushed before the queue is full; None if there is no limit."""
        capacity = self.config.options.max_size
        return capacity - self.depth if capacity else None


class ReadyQueue:
    """Partitions that can be delivered now, the one whose message waits longest first."""

    __slots__ = ("_heap", "_members", "_turn")

    def __init__(self) -> None:
        # Age, turn and partition in one integer: a third of the size of a tuple of them.
        self._heap: list[int] = []
        self._members: dict[int, int] = {}
        self._turn = 0

    def add(self, partition: int, oldest_at: Instant) -> bool:
        """False if it was there already. Those that are equally old take turns."""
        if partition in self._members:
            return False
        self._turn = self._turn + 1 & 0xFFFFFFFF
        entry = max(0, oldest_at) << 96 | self._turn << 64 | partition
        self._members[partition] = entry
        heapq.heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self._members) + 1000:
            self._heap = sorted(self._members.values())
        return True

    def discard(self, partition: int) -> None:
        self._members.pop(partition, None)
        if not self._members:
            self._heap.clear()

    def oldest_at(self) -> Instant | None:
        """Since when the first of them waits."""
        self._drop_discarded()
        return self._heap[0] >> 96 if self._heap else None

    def take(self) -> int | None:
        """Take the first of them out."""
        self._drop_discarded()
        if not self._heap:
            return None
        partition = heapq.heappop(self._heap) & _NUMBER
        del self._members[partition]
        return partition

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, partition: int) -> bool:
        return partition in self._members

    def _drop_discarded(self) -> None:
        while self._heap and self._members.get(self._heap[0] & _NUMBER) != self._heap[0]:
            heapq.heappop(self._heap)
