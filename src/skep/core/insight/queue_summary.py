"""Queues in numbers: messages by status, leases, long polls, dead letters, retention history.

The answers come from memory, in small steps, so that pushes and pops do not wait for them.
"""

from collections import Counter
from collections.abc import Iterable

from skep.core.aio import yielding
from skep.core.cluster.peer_sync import PeerSync, current
from skep.core.insight.dead_letter_count import DeadLetterCounter
from skep.core.insight.partition_summary import ALL, PartitionSummaryReader
from skep.core.state.registry import Registry
from skep.core.state.totals_updater import TotalsUpdater
from skep.core.state.waiters import Waiters
from skep.core.visibility import QueueFilter
from skep.model.name import RESERVED, LeaseId
from skep.model.queue import Queue, Removal
from skep.model.stats import Counts, ErrorCounts, LeaseCounts, PartitionSummary, QueueSummary
from skep.store.protocol import Store

MAX_REMOVALS = 10_000
"""Lines of the retention history that are read of a queue."""


class QueueSummaryReader:
    def __init__(
        self,
        store: Store,
        registry: Registry,
        waiters: Waiters,
        peer_sync: PeerSync,
        totals_updater: TotalsUpdater,
        dead_letters: DeadLetterCounter,
    ) -> None:
        self._peer_sync = peer_sync
        self._store = store
        self._registry = registry
        self._waiters = waiters
        self._totals_updater = totals_updater
        self._dead_letters = dead_letters
        self._partitions = PartitionSummaryReader(store)

    @current
    async def find(
        self, visible: QueueFilter, *, namespace: str | None = None, task: str | None = None
    ) -> list[Queue]:
        """The queues that are visible to the caller, by name."""
        return [
            state.config
            for state in self._registry.visible_queues(visible)
            if namespace in (None, state.config.namespace) and task in (None, state.config.task)
        ]

    @current
    async def queue(self, queue: str) -> QueueSummary:
        """One queue in numbers."""
        return await self._summarize(queue)

    async def _summarize(self, queue: str) -> QueueSummary:
        state = self._registry.queue(queue)
        dead_letters = await self._dead_letters.count(queue)
        counts = await self._totals_updater.counts(state)
        groups = state.groups.values()
        return QueueSummary(
            queue=state.config,
            partitions=len(state.partitions),
            groups=len(state.groups),
            counts=counts + Counts(dead_letters=dead_letters),
            messages_consumed=sum(group.messages_consumed for group in groups),
            batches_consumed=sum(group.batches_consumed for group in groups),
        )

    @current
    async def queues(self, queues: Iterable[Queue]) -> list[QueueSummary]:
        """Several queues in numbers, without those that were deleted meanwhile."""
        return [
            await self._summarize(config.name)
            async for config in yielding(queues)
            if config.name in self._registry.queues
        ]

    @current
    async def partitions(
        self, queue: str, *, min_pending: int = 0, offset: int = 0, limit: int = ALL
    ) -> list[PartitionSummary]:
        """Partitions of a queue with at least ``min_pending`` pending messages, oldest first."""
        state = self._registry.queue(queue)
        return await self._partitions.list(
            state, min_pending=min_pending, offset=offset, limit=limit
        )

    @current
    async def leases(self, queues: Iterable[Queue]) -> LeaseCounts:
        """The live leases of queues, and how much they hold."""
        ids: set[LeaseId] = set()
        partitions = held = acked = 0
        async for config in yielding(queues):
            state = self._registry.queues.get(config.name)
            if state is None:
                continue
            await self._totals_updater.catch_up(state)
            for totals in [group.totals for group in state.groups.values()]:
                partitions += len(totals.leased)
                held += totals.held
                acked += totals.acked
                # A lease may hold partitions of several queues.
                async for lease in yielding(list(totals.leases)):
                    ids.add(lease)
        return LeaseCounts(active=len(ids), partitions=partitions, held=held, acked=acked)

    def parked(self, visible: QueueFilter) -> dict[tuple[str, str], int]:
        """How many long polls wait, by queue and group."""
        names = {state.config.number: name for name, state in self._registry.queues.items()}
        parked: Counter[tuple[str, str]] = Counter()
        for key, waiters in self._waiters.count().items():
            name = None if isinstance(key, str) else names.get(key[0])
            if name is not None and visible(name) and not name.startswith(RESERVED):
                parked[name, key[1]] += waiters
        return parked

    @current
    async def dead_letters(self, queue: str) -> int:
        """How many dead letters a queue has."""
        return await self._dead_letters.count(queue)

    @current
    async def errors(self, queues: Iterable[Queue], *, limit: int = 10) -> ErrorCounts:
        """The most common errors of the newest dead letters of queues."""
        return await self._dead_letters.errors(queues, limit=limit)

    @current
    async def removals(self, queues: Iterable[Queue], start: int, stop: int) -> list[Removal]:
        """The retention history of queues between two instants, oldest first."""
        removals = [
            removal
            for config in queues
            for removal in await self._store.removals(config.number, limit=MAX_REMOVALS)
            if start <= removal.executed_at <= stop
        ]
        return sorted(removals, key=lambda removal: removal.executed_at)
