"""Administration of groups: list them, move their cursors, delete them."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Literal, TypeAlias

from skep.core.aio import Backoff, yielding
from skep.core.cluster.peer_sync import PeerSync, current
from skep.core.consume.subscription import Subscriptions
from skep.core.log.committer import Committer
from skep.core.rules import lease as leases
from skep.core.state.group_lag import group_lag, partition_lag
from skep.core.state.partition_order import in_order
from skep.core.state.queue_state import GroupState, PartitionState
from skep.core.state.registry import Registry
from skep.core.state.totals_updater import TotalsUpdater
from skep.errors import Conflict, Invalid
from skep.model.address import MAX_OFFSET
from skep.model.change import Applied, Change, ConsumerUpdate
from skep.model.consumer import ConsumerState
from skep.model.name import RESERVED, Offset, check_count, from_datetime, to_datetime
from skep.model.stats import GroupLag, PartitionLag
from skep.store.protocol import LogStore

Target: TypeAlias = Literal["beginning", "end"] | int | datetime
_STEP = 500
"""Partitions moved in one change."""


class Groups:
    def __init__(
        self,
        store: LogStore,
        registry: Registry,
        committer: Committer,
        peer_sync: PeerSync,
        subscriptions: Subscriptions,
        totals_updater: TotalsUpdater,
    ) -> None:
        self._store = store
        self._registry = registry
        self._committer = committer
        self._peer_sync = peer_sync
        self._subscriptions = subscriptions
        self._totals_updater = totals_updater

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
        state = self._registry.group(queue, group)
        partitions = self._registry.partitions_of(queue, partition)
        _check_offset(partitions, to)
        return await self._move_all(state, partitions, to)

    @current
    async def restart(self, queue: str, group: str) -> int:
        """Move a group back to where it started in a queue; return in how many partitions."""
        subscription = self._registry.group(queue, group).subscription
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
        state = self._registry.group(queue, group)
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
                for name, q in sorted(self._registry.queues.items())
                if not name.startswith(RESERVED)
            ]
            if queue is None
            else [self._registry.queue(queue)]
        )
        found: list[GroupLag] = []
        for state in queues:
            await self._totals_updater.catch_up(state)
            found += [group_lag(group) for _, group in sorted(state.groups.items())]
        return found

    @current
    async def lag(
        self, queue: str, group: str, *, partition: str | None = None
    ) -> Iterator[PartitionLag]:
        """A group's place in each partition of a queue, or in one."""
        state = self._registry.group(queue, group)
        now = self._store.clock.now()
        if partition is None:
            partitions = await in_order(state.queue)
        else:
            partitions = [self._registry.partition(queue, partition)]
        return (partition_lag(state, each, now) for each in partitions)

    @current
    async def delete(self, queue: str, group: str) -> None:
        """Forget a group; the next pop under its name is a first contact again."""
        state = self._registry.group(queue, group)
        await self._subscriptions.remove(state)


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


def _is_unread(consumer: ConsumerState) -> bool:
    return not (consumer.messages_consumed or consumer.run_end or consumer.acked)
