"""Counts dead letters: how many a queue has, and the errors of the newest."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable

from skep.core.metrics.commit_meter import CommitMeter
from skep.core.state.registry import Registry
from skep.model.dead_letter import DeadLetter, DeadLetterFilter
from skep.model.queue import Queue
from skep.model.stats import ErrorCounts
from skep.store.protocol import DeadLetterStore

_STEP = 500
"""Dead letters read at a time."""
MAX_DEAD_LETTERS = 10_000
"""The newest dead letters of a queue whose errors are counted."""


class DeadLetterCounter:
    def __init__(self, store: DeadLetterStore, registry: Registry, meter: CommitMeter) -> None:
        self._store = store
        self._registry = registry
        self._meter = meter

    async def count(self, queue: str) -> int:
        """How many dead letters a queue has; counted again only after they have changed."""
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

    async def errors(self, queues: Iterable[Queue], *, limit: int) -> ErrorCounts:
        """The most common errors of queues, among the newest ``MAX_DEAD_LETTERS`` of each."""
        reasons: Counter[str] = Counter()
        partitions: set[int] = set()
        for config in queues:
            async for dead_letter in self._newest(config.number):
                reasons[dead_letter.error] += 1
                partitions.add(dead_letter.partition)
        return ErrorCounts(reasons=reasons.most_common(limit), partitions=len(partitions))

    async def _newest(self, queue: int) -> AsyncIterator[DeadLetter]:
        before = None
        for _ in range(MAX_DEAD_LETTERS // _STEP):
            page = await self._store.dead_letters(
                DeadLetterFilter(queue=queue), before=before, limit=_STEP
            )
            for dead_letter in page:
                yield dead_letter
            if len(page) < _STEP:
                return
            before = page[-1].number
            await asyncio.sleep(0)
