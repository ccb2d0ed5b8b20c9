"""The backlog of a group in a queue, in all and by partition."""

import msgspec

from skep.core.aio import yielding
from skep.core.state.partition_order import in_order
from skep.core.state.queue_state import GroupState, QueueState
from skep.core.state.totals_updater import TotalsUpdater


class QueueBacklog(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of a queue that a group has not completed, in all and by partition."""

    backlog: int
    partitions_with_backlog: int
    partitions: list[tuple[str, int]]


class QueueBacklogReader:
    def __init__(self, totals_updater: TotalsUpdater) -> None:
        self._totals_updater = totals_updater

    async def of_group(self, group: GroupState, limit: int) -> QueueBacklog:
        """The backlog of a group, with at most ``limit`` partitions."""
        await self._totals_updater.catch_up(group.queue)
        backlog, waiting = group.backlog - group.acked, len(group.totals.waiting)
        partitions: list[tuple[str, int]] = []
        async for partition in yielding(await in_order(group.queue) if waiting else ()):
            if len(partitions) == min(limit, waiting):
                break
            if pending := group.pending(partition):
                partitions.append((partition.name, pending))
        return QueueBacklog(backlog=backlog, partitions_with_backlog=waiting, partitions=partitions)

    async def of_queue(self, queue: QueueState, limit: int) -> QueueBacklog:
        """All messages of a queue: the backlog of a group that has never popped from it."""
        waiting = 0
        partitions: list[tuple[str, int]] = []
        async for partition in yielding(await in_order(queue)):
            if partition.end > partition.start:
                waiting += 1
                if len(partitions) < limit:
                    partitions.append((partition.name, partition.end - partition.start))
        return QueueBacklog(
            backlog=queue.kept, partitions_with_backlog=waiting, partitions=partitions
        )
