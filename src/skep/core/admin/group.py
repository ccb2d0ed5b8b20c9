"""Groups: list them, move their cursors, delete them."""

from collections.abc import Iterator
from datetime import datetime

from skep.core.admin.cursor_move import CursorMover, Target, check_offset, check_target
from skep.core.aio import yielding
from skep.core.cluster.peer_sync import PeerSync, current
from skep.core.consume.subscription import Subscriptions
from skep.core.state.group_lag import group_lag, partition_lag
from skep.core.state.partition_order import in_order
from skep.core.state.registry import Registry
from skep.core.state.totals_updater import TotalsUpdater
from skep.model.consumer import ConsumerState
from skep.model.name import to_datetime
from skep.model.stats import GroupLag, PartitionLag
from skep.store.clock import Clock


class Groups:
    def __init__(
        self,
        clock: Clock,
        registry: Registry,
        peer_sync: PeerSync,
        subscriptions: Subscriptions,
        totals_updater: TotalsUpdater,
        cursor_mover: CursorMover,
    ) -> None:
        self._clock = clock
        self._registry = registry
        self._peer_sync = peer_sync
        self._subscriptions = subscriptions
        self._totals_updater = totals_updater
        self._cursor_mover = cursor_mover

    @current
    async def seek(
        self, queue: str, group: str, to: Target, *, partition: str | None = None
    ) -> int:
        """Move a group's cursors; return in how many partitions.

        Leases end, and acks beyond the cursor are discarded. A queue with many partitions is
        moved in steps.
        """
        check_target(to)
        state = self._registry.group(queue, group)
        partitions = self._registry.partitions_of(queue, partition)
        check_offset(partitions, to)
        return await self._cursor_mover.move(state, partitions, to)

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
        """Move a group to an instant in every partition that it has not read; return how many.

        In the others it continues from its cursor. The record of its first contact with the
        queue does not change.
        """
        check_target(start)
        state = self._registry.group(queue, group)
        unread = [
            partition
            async for partition in yielding(list(state.queue.partitions.values()))
            if _is_unread(state.consumer(partition))
        ]
        return await self._cursor_mover.move(state, unread, start)

    @current
    async def list(self, queue: str | None = None) -> list[GroupLag]:
        """Every group of one queue, or of all queues, with its lag."""
        queues = self._registry.visible_queues() if queue is None else [self._registry.queue(queue)]
        lags: list[GroupLag] = []
        for state in queues:
            await self._totals_updater.catch_up(state)
            lags += [group_lag(group) for _, group in sorted(state.groups.items())]
        return lags

    @current
    async def lag(
        self, queue: str, group: str, *, partition: str | None = None
    ) -> Iterator[PartitionLag]:
        """A group's lag in each partition of a queue, or in one."""
        state = self._registry.group(queue, group)
        now = self._clock.now()
        if partition is None:
            partitions = await in_order(state.queue)
        else:
            partitions = [self._registry.partition(queue, partition)]
        return (partition_lag(state, each, now) for each in partitions)

    @current
    async def delete(self, queue: str, group: str) -> None:
        """Delete a group; the next pop under its name is a first contact again."""
        state = self._registry.group(queue, group)
        await self._subscriptions.remove(state)


def _is_unread(consumer: ConsumerState) -> bool:
    return not (consumer.messages_consumed or consumer.run_end or consumer.acked)
