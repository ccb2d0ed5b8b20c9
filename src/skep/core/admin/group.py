"""Groups: where they start, where they are, and moving them."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Literal, TypeAlias, overload
from uuid import uuid4

from skep.core.aio.backoff import Backoff
from skep.core.aio.completion import KeyedLocks, run_to_completion
from skep.core.aio.slicing import yielding
from skep.core.cluster.peer_sync import PeerSync, current
from skep.core.log.committer import Committer
from skep.core.rules import lease as leases
from skep.core.state.catalogue import Catalogue
from skep.core.state.partition_order import in_order
from skep.core.state.queue_state import GroupState, PartitionState, QueueState
from skep.core.state.totals_updater import TotalsUpdater
from skep.errors import Conflict, Invalid, QueueNotFound
from skep.model.address import MAX_OFFSET
from skep.model.change import Applied, Change, ConsumerUpdate
from skep.model.consumer import Consumer
from skep.model.lease_id import worker_id_of
from skep.model.name import RESERVED, Instant, Offset, check_count, from_datetime, to_datetime
from skep.model.queue import Subscription
from skep.model.stats import GroupLag, PartitionLag
from skep.store.protocol import Store, StoredConsumer

Target: TypeAlias = Literal["beginning", "end"] | int | datetime
MODES = ("all", "new")
_STEP = 500
"""Partitions moved in one change."""


class Seeds(Sequence[StoredConsumer]):
    """The first states of a group, made when they are asked for.

    The garbage collector would visit a million of them, and hold everybody up.
    """

    def __init__(self, group: str) -> None:
        self._group = group
        self._partitions: list[int] = []
        self._states: list[Consumer] = []

    def add(self, partition: int, state: Consumer) -> None:
        self._partitions.append(partition)
        self._states.append(state)

    def __len__(self) -> int:
        return len(self._states)

    @overload
    def __getitem__(self, index: int) -> StoredConsumer: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[StoredConsumer]: ...
    def __getitem__(self, index: int | slice) -> StoredConsumer | Sequence[StoredConsumer]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        return StoredConsumer(self._partitions[index], self._group, self._states[index])


class Groups:
    def __init__(
        self,
        store: Store,
        catalogue: Catalogue,
        committer: Committer,
        following: PeerSync,
        counting: TotalsUpdater,
    ) -> None:
        self._store = store
        self._catalogue = catalogue
        self._committer = committer
        self._following = following
        self._counting = counting
        self._registering = KeyedLocks[tuple[int, str]]()

    # Where a group starts.

    def find(self, queue: QueueState, name: str) -> GroupState | None:
        """The group, if its first contact with the queue is over."""
        known = queue.groups.get(name)
        return None if known is None or known.starting else known

    async def contact(
        self, queue: QueueState, name: str, mode: str, from_at: datetime | None
    ) -> GroupState:
        """The group after its first contact with the queue, which decides where it starts."""
        with self._catalogue.quotas.reserve("groups", queue.config.name, [name]):
            return await run_to_completion(self._register(queue, name, mode, from_at))

    async def _register(
        self, queue: QueueState, name: str, mode: str, from_at: datetime | None
    ) -> GroupState:
        async with self._registering.of((queue.config.number, name)):
            # It may have been elsewhere, and it starts behind what is there now.
            if mode == "all" and from_at is None:
                await self._following.catch_up()
            else:
                await self._following.complete(queue.config.name)
            known = queue.groups.get(name)
            if known is not None:
                return known
            start = None if from_at is None else from_datetime("subscription_from", from_at)
            subscription = Subscription(
                id=str(uuid4()),
                queue=queue.config.number,
                group=name,
                mode="timestamp" if start is not None else mode,
                from_at=start,
                created_at=self._store.clock.now(),
            )
            seeds = await self._seeds(queue, name, mode, start)
            if not await self._catalogue.add_first_contact(queue, subscription, seeds):
                await self._following.look_at(queue.config.number)
            if name not in queue.groups:
                raise QueueNotFound(queue.config.name)
            return queue.groups[name]

    async def _seeds(
        self, queue: QueueState, group: str, mode: str, start: Instant | None
    ) -> "Seeds":
        """A state for each partition of which the group skips something."""
        seeds = Seeds(group)
        if mode == "all" and start is None:
            return seeds
        now = self._store.clock.now()
        async for partition in yielding(list(queue.partitions.values())):
            if start is None or start >= now:
                cursor = partition.end
            else:
                cursor = await self._store.offset_at(partition.number, start)
            oldest_at = now if cursor == partition.end else start or 0
            seeds.add(partition.number, Consumer(version=1, cursor=cursor, oldest_at=oldest_at))
        return seeds

    # Moving.

    @current
    async def seek(
        self, queue: str, group: str, to: Target, *, partition: str | None = None
    ) -> int:
        """Move a group's cursors; return in how many partitions.

        Leases end, acks beyond the cursor are forgotten. A queue with many partitions is
        moved in steps.
        """
        check_target(to)
        state = self._catalogue.group(queue, group)
        partitions = self._catalogue.partitions_of(queue, partition)
        _check_offset(partitions, to)
        return await self._move_all(state, partitions, to)

    @current
    async def restart(self, queue: str, group: str) -> int:
        """Move a group back to where it started in a queue; return in how many partitions."""
        subscription = self._catalogue.group(queue, group).subscription
        if subscription.mode == "all":
            return await self.seek(queue, group, "beginning")
        start = subscription.from_at
        return await self.seek(
            queue, group, to_datetime(subscription.created_at if start is None else start)
        )

    @current
    async def resubscribe(self, queue: str, group: str, start: datetime) -> int:
        """Let a group start at an instant wherever it has not read anything yet.

        Returns in how many partitions that is so. Where it has read it goes on from its cursor,
        and the record of its first contact with the queue stays as it is.
        """
        check_target(start)
        state = self._catalogue.group(queue, group)
        unread = [
            partition
            async for partition in yielding(list(state.queue.partitions.values()))
            if _is_unread(state.consumer(partition))
        ]
        return await self._move_all(state, unread, start)

    async def _move_all(
        self, group: GroupState, partitions: Sequence[PartitionState], to: Target
    ) -> int:
        for start in range(0, len(partitions), _STEP):
            await self._move(group, partitions[start : start + _STEP], to)
        return len(partitions)

    async def _move(
        self, group: GroupState, partitions: Sequence[PartitionState], to: Target
    ) -> None:
        targets = [(partition, await self._offset(partition, to)) for partition in partitions]
        backoff = Backoff(f"group {group.name!r}")
        while True:
            updates = [_moved(group, partition, cursor) for partition, cursor in targets]
            outcome = await self._committer.submit(Change(consumers=tuple(updates)))
            if isinstance(outcome, Applied):
                return
            if group.removed:
                raise Conflict(f"group {group.name!r} was removed meanwhile")
            await backoff.pause()

    async def _offset(self, partition: PartitionState, to: Target) -> Offset:
        if to == "beginning":
            return partition.start
        if to == "end":
            return partition.end
        if isinstance(to, datetime):
            return await self._store.offset_at(partition.number, from_datetime("to", to))
        return int(to)

    # Looking.

    @current
    async def list(self, queue: str | None = None) -> list[GroupLag]:
        """Every group, of one queue or of all, and how far it is."""
        queues = (
            [
                q
                for name, q in sorted(self._catalogue.queues.items())
                if not name.startswith(RESERVED)
            ]
            if queue is None
            else [self._catalogue.queue(queue)]
        )
        found: list[GroupLag] = []
        for state in queues:
            await self._counting.catch_up(state)
            found += [group_lag(group) for _, group in sorted(state.groups.items())]
        return found

    @current
    async def lag(
        self, queue: str, group: str, *, partition: str | None = None
    ) -> Iterator[PartitionLag]:
        """A group's place in each partition of a queue, or in one."""
        state = self._catalogue.group(queue, group)
        now = self._store.clock.now()
        if partition is None:
            partitions = await in_order(state.queue)
        else:
            partitions = [self._catalogue.partition(queue, partition)]
        return (partition_lag(state, each, now) for each in partitions)

    @current
    async def delete(self, queue: str, group: str) -> None:
        """Forget a group; the next pop under its name is a first contact again."""
        state = self._catalogue.group(queue, group)
        # Who waits for it comes back at once, and must not be taken for the one that goes.
        async with self._registering.of((state.queue.config.number, group)):
            if not state.removed:
                await self._catalogue.forget_group(state)


def check_mode(mode: object) -> str:
    if mode not in MODES:
        raise Invalid("subscription_mode", f"{mode!r} is none of {', '.join(MODES)}")
    return str(mode)


def check_target(to: object) -> None:
    if isinstance(to, datetime):
        from_datetime("to", to)
    elif isinstance(to, int):
        check_count("to", to, most=MAX_OFFSET)
    elif to not in ("beginning", "end"):
        raise Invalid("to", f"{to!r} is not 'beginning', 'end', an offset or a datetime")


def _moved(group: GroupState, partition: PartitionState, cursor: Offset) -> ConsumerUpdate:
    # How old the message at the new place is, is not known: not older than the first.
    consumer = group.consumer(partition)
    return group.update(partition, leases.seek(consumer, cursor, oldest_at=partition.first_at))


def _check_offset(partitions: Sequence[PartitionState], to: Target) -> None:
    """Before anything is moved: an offset must be one that every partition has, or its end."""
    if isinstance(to, int):
        for partition in partitions:
            if to > partition.end:
                raise Invalid(
                    "to", f"{to} lies beyond the end of {partition.name!r}, {partition.end}"
                )


def _is_unread(consumer: Consumer) -> bool:
    return not (consumer.messages_consumed or consumer.run_end or consumer.acked)


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
