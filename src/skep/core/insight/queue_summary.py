"""Queues in numbers: how many messages, where they stand, why they were given up.

The answers come from memory, in steps, so that nobody who pushes or pops waits for who looks.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable

from skep.core.aio import yielding
from skep.core.cluster.peer_sync import PeerSync, current
from skep.core.metrics.commit_meter import CommitMeter
from skep.core.state import message_status as standing
from skep.core.state.partition_order import in_order
from skep.core.state.queue_state import PartitionState
from skep.core.state.registry import Registry
from skep.core.state.totals_updater import TotalsUpdater
from skep.core.state.waiters import Waiters
from skep.core.visibility import QueueFilter
from skep.model.dead_letter import DeadLetter, DeadLetterFilter
from skep.model.name import RESERVED, LeaseId, to_datetime
from skep.model.queue import Queue, Removal
from skep.model.stats import Counts, ErrorCounts, LeaseCounts, PartitionSummary, QueueSummary
from skep.store.protocol import Store

_STEP = 500
"""Dead letters that are read at a time."""
_ALL = 1 << 62
MAX_DEAD_LETTERS = 10_000
"""The newest dead letters that are looked at to say why messages are given up."""
MAX_REMOVALS = 10_000
"""Lines of the retention history that are looked at in a queue."""


class QueueSummaryReader:
    def __init__(
        self,
        store: Store,
        registry: Registry,
        waiters: Waiters,
        peer_sync: PeerSync,
        totals_updater: TotalsUpdater,
        meter: CommitMeter,
    ) -> None:
        self._peer_sync = peer_sync
        self._store = store
        self._registry = registry
        self._waiters = waiters
        self._totals_updater = totals_updater
        self._meter = meter

    # Queues and partitions.

    @current
    async def find(
        self, visible: QueueFilter, *, namespace: str | None = None, task: str | None = None
    ) -> list[Queue]:
        """The queues that somebody sees, by name."""
        self._registry.check_open()
        found = (
            state.config
            for name, state in self._registry.queues.items()
            if visible(name)
            and not name.startswith(RESERVED)
            and namespace in (None, state.config.namespace)
            and task in (None, state.config.task)
        )
        return sorted(found, key=lambda config: config.name)

    @current
    async def queue(self, queue: str) -> QueueSummary:
        """One queue in numbers."""
        return await self._summarize(queue)

    async def _summarize(self, queue: str) -> QueueSummary:
        state = self._registry.queue(queue)
        dead_letters = await self._dead_letters(queue)
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
        """Some queues in numbers, without those that were deleted meanwhile."""
        return [
            await self._summarize(config.name)
            async for config in yielding(queues)
            if config.name in self._registry.queues
        ]

    @current
    async def partitions(
        self, queue: str, *, min_pending: int = 0, offset: int = 0, limit: int = _ALL
    ) -> list[PartitionSummary]:
        """Partitions of a queue with at least so much pending, in numbers, oldest first."""
        state = self._registry.queue(queue)
        now = self._store.clock.now()
        found: list[PartitionSummary] = []
        async for partition in yielding(await in_order(state)):
            if len(found) == limit:
                break
            counts = standing.count(partition, state.groups.values(), now)
            if counts.pending < min_pending:
                continue
            if offset:
                offset -= 1
                continue
            found.append(await self._summary(partition, counts))
        return found

    async def _summary(self, state: PartitionState, counts: Counts) -> PartitionSummary:
        dead_letters = await self._store.given_up(state.number, 0, _ALL)
        consumers = [group.consumer(state) for group in state.queue.groups.values()]
        return PartitionSummary(
            queue=state.queue.config.name,
            name=state.name,
            number=state.number,
            start=state.start,
            end=state.end,
            counts=counts + Counts(dead_letters=len(dead_letters)),
            messages_consumed=sum(consumer.messages_consumed for consumer in consumers),
            batches_consumed=sum(consumer.batches_consumed for consumer in consumers),
            created_at=to_datetime(state.created_at),
            first_at=to_datetime(state.first_at) if state.end > state.start else None,
            newest_at=to_datetime(state.newest_at) if state.newest_at else None,
        )

    # Leases and who waits.

    @current
    async def leases(self, queues: Iterable[Queue]) -> LeaseCounts:
        """The leases that live in some queues."""
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
        found: Counter[tuple[str, str]] = Counter()
        for place, sleepers in self._waiters.count().items():
            name = None if isinstance(place, str) else names.get(place[0])
            if name is not None and visible(name) and not name.startswith(RESERVED):
                found[name, place[1]] += sleepers
        return found

    # Dead letters and removals.

    @current
    async def dead_letters(self, queue: str) -> int:
        """How many dead letters a queue has; counted again only after they have changed."""
        return await self._dead_letters(queue)

    async def _dead_letters(self, queue: str) -> int:
        number = self._registry.queue(queue).config.number
        meter = self._meter
        if number not in meter.letters:
            changes = meter.letter_changes
            count = await self._store.count_dead_letters(DeadLetterFilter(queue=number))
            if changes != meter.letter_changes:
                return count
            if len(meter.letters) > 2 * len(self._registry.queues) + 1000:
                meter.letters.clear()
            meter.letters[number] = count
        return meter.letters[number]

    @current
    async def errors(self, queues: Iterable[Queue], *, limit: int = 10) -> ErrorCounts:
        """Why messages of some queues were given up: of each the newest ``MAX_DEAD_LETTERS``."""
        reasons: Counter[str] = Counter()
        partitions: set[int] = set()
        for config in queues:
            async for dead_letter in self._newest_dead_letters(config.number):
                reasons[dead_letter.error] += 1
                partitions.add(dead_letter.partition)
        return ErrorCounts(reasons=reasons.most_common(limit), partitions=len(partitions))

    async def _newest_dead_letters(self, queue: int) -> AsyncIterator[DeadLetter]:
        before = None
        for _ in range(MAX_DEAD_LETTERS // _STEP):
            dead_letters = await self._store.dead_letters(
                DeadLetterFilter(queue=queue), before=before, limit=_STEP
            )
            for dead_letter in dead_letters:
                yield dead_letter
            if len(dead_letters) < _STEP:
                return
            before = dead_letters[-1].number
            await asyncio.sleep(0)

    @current
    async def removals(self, queues: Iterable[Queue], start: int, stop: int) -> list[Removal]:
        """What left some queues between two instants, oldest first."""
        found = [
            removal
            for config in queues
            for removal in await self._store.removals(config.number, limit=MAX_REMOVALS)
            if start <= removal.executed_at <= stop
        ]
        return sorted(found, key=lambda removal: removal.executed_at)
