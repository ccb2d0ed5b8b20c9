"""How far groups are behind, in messages and in time: consumer groups and reader groups."""

from skep.core.aio import yielding
from skep.core.cluster.peer_sync import PeerSync, current
from skep.core.insight.exact_lag import ExactLagReader, LaggingPartition
from skep.core.insight.queue_backlog import QueueBacklog, QueueBacklogReader
from skep.core.journal.reader_group import Reader, ReaderGroups
from skep.core.state.partition_order import in_order
from skep.core.state.registry import Registry
from skep.core.visibility import QueueFilter
from skep.errors import NotFound
from skep.model.name import QUEUE_MODE, SECOND, check_text
from skep.model.stats import GroupLag, LaneLag, PartitionLag
from skep.store.clock import Clock


class GroupLagReader:
    def __init__(
        self,
        clock: Clock,
        registry: Registry,
        peer_sync: PeerSync,
        readers: ReaderGroups,
        exact_lag: ExactLagReader,
        backlog: QueueBacklogReader,
    ) -> None:
        self._clock = clock
        self._registry = registry
        self._peer_sync = peer_sync
        self._readers = readers
        self._exact_lag = exact_lag
        self._backlog = backlog

    @current
    async def of(self, group: str, visible: QueueFilter) -> list[str]:
        """The visible queues that a group has popped from, by name."""
        check_text("group", group)
        return [
            queue.config.name
            for queue in self._registry.visible_queues(visible)
            if group in queue.groups
        ]

    @current
    async def find(self, group: str, visible: QueueFilter) -> list[str]:
        """The same as ``of``; raises ``NotFound`` if there is none."""
        names = await self.of(group, visible)
        if not names:
            raise NotFound(f"group {group!r} has never popped from any queue")
        return names

    @current
    async def find_all(self, group: str, visible: QueueFilter) -> list[str]:
        """The visible queues that a group has popped from, or whose journals it reads."""
        reader = await self._readers.find(group)
        names = [
            queue.config.name
            for queue in self._registry.visible_queues(visible)
            if group in queue.groups or (reader and reader.lanes(queue) is not None)
        ]
        if not names:
            raise NotFound(f"there is no group {group!r}")
        return names

    @current
    async def groups(self, visible: QueueFilter) -> list[GroupLag]:
        """The lag of every group in every visible queue."""
        readers = await self._readers.all()
        lags: list[GroupLag] = []
        async for queue in yielding(self._registry.visible_queues(visible)):
            for _, group in sorted(queue.groups.items()):
                lags.append(await self._exact_lag.of_group(group))
            lags += await self._readers.lags(queue, readers)
        return lags

    @current
    async def group(self, queue: str, group: str) -> GroupLag:
        """The lag of a group in one queue."""
        state = self._registry.queue(queue)
        reader = None if group in state.groups else await self._readers.find(group)
        lags = await self._readers.lags(state, [reader]) if reader else []
        return (
            lags[0] if lags else await self._exact_lag.of_group(self._registry.group(queue, group))
        )

    @current
    async def partitions(
        self, queue: str, group: str, *, offset: int = 0, limit: int
    ) -> list[PartitionLag]:
        """The lag of a group in partitions of a queue, oldest partition first.

        A reader group has lanes instead of partitions: see ``lanes``.
        """
        if await self._reader(queue, group) is not None:
            return []
        consumers = self._registry.group(queue, group)
        now = self._clock.now()
        page = (await in_order(consumers.queue))[offset : offset + limit]
        return [
            await self._exact_lag.of_partition(consumers, partition, now)
            async for partition in yielding(page)
        ]

    @current
    async def lanes(self, queue: str, group: str) -> list[LaneLag]:
        """The lag of a reader group in each lane of a queue; empty for a group that pops."""
        reader = await self._reader(queue, group)
        return await self._readers.lanes(self._registry.queue(queue), reader) if reader else []

    async def _reader(self, queue: str, group: str) -> Reader | None:
        """The reader group of a queue; None if the group pops from it, or does not read it."""
        state = self._registry.queue(queue)
        reader = None if group in state.groups else await self._readers.find(group)
        return reader if reader and reader.lanes(state) is not None else None

    @current
    async def lagging(
        self, visible: QueueFilter, *, seconds: float, limit: int
    ) -> list[LaggingPartition]:
        """Partitions whose oldest message waits at least ``seconds``, the oldest first."""
        now = self._clock.now()
        horizon = now - int(seconds * SECOND)
        queues = self._registry.visible_queues(visible)
        return await self._exact_lag.lagging(queues, horizon, now, limit=limit)

    @current
    async def backlog(self, queue: str, group: str, *, limit: int) -> QueueBacklog:
        """The backlog of a group in a queue, with at most ``limit`` partitions.

        The group of pops without a group has the whole queue as its backlog until its first pop.
        """
        state = self._registry.queue(queue)
        if group == QUEUE_MODE and group not in state.groups:
            return await self._backlog.of_queue(state, limit)
        return await self._backlog.of_group(self._registry.group(queue, group), limit)
