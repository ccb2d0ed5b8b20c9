"""Lists dead letters of several queues, newest first, in pages."""

import heapq
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from skep.core.admin.dead_letter import DeadLetters
from skep.core.cluster.peer_sync import PeerSync, current
from skep.core.limits import Limits
from skep.core.state.registry import Registry
from skep.model.dead_letter import FailedMessage
from skep.model.message_view import DeadLetterPage
from skep.model.queue import Queue


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterQuery:
    """Which dead letters are listed; a field that is None does not restrict."""

    group: str | None = None
    partition: str | None = None
    from_: datetime | None = None
    to: datetime | None = None


class DeadLetterBrowser:
    def __init__(
        self,
        registry: Registry,
        peer_sync: PeerSync,
        dead_letters: DeadLetters,
        limits: Limits,
    ) -> None:
        self._peer_sync = peer_sync
        self._registry = registry
        self._dead_letters = dead_letters
        self._limits = limits

    @current
    async def page(
        self,
        queues: Sequence[Queue],
        which: DeadLetterQuery,
        *,
        before: int | None = None,
        offset: int = 0,
        limit: int | None = None,
    ) -> DeadLetterPage:
        """Dead letters of queues. ``before`` is the ``next`` of the previous page."""
        limit = self._limits.check_page(limit)
        queues = [config for config in queues if self._has_partition(config, which.partition)]
        found: list[FailedMessage] = []
        async for dead_letter in self._newest_dead_letters(queues, which, before, limit):
            if offset:
                offset -= 1
            elif len(found) < limit:
                found.append(dead_letter)
            else:
                return DeadLetterPage(
                    dead_letters=found,
                    total=await self._total(queues, which),
                    next=found[-1].number,
                )
        return DeadLetterPage(dead_letters=found, total=await self._total(queues, which), next=None)

    @current
    async def find(
        self, partition: int, transaction_id: str, *, group: str | None = None
    ) -> FailedMessage | None:
        """The newest dead letter of a message, even if the message itself was deleted."""
        state = self._registry.find_partition(partition)
        if state is None:
            return None
        before = None
        while dead_letters := await self._dead_letters.list(
            state.queue.config.name,
            group=group,
            partition=state.name,
            before=before,
            limit=self._limits.page,
        ):
            for dead_letter in dead_letters:
                if dead_letter.transaction_id == transaction_id:
                    return dead_letter
            before = dead_letters[-1].number
        return None

    def _has_partition(self, config: Queue, partition: str | None) -> bool:
        state = self._registry.queues.get(config.name)
        return state is not None and (partition is None or partition in state.partitions)

    async def _total(self, queues: Iterable[Queue], which: DeadLetterQuery) -> int:
        return sum(
            [
                await self._dead_letters.count(
                    config.name,
                    group=which.group,
                    partition=which.partition,
                    from_=which.from_,
                    to=which.to,
                )
                for config in queues
            ]
        )

    async def _newest_dead_letters(
        self, queues: Iterable[Queue], which: DeadLetterQuery, before: int | None, limit: int
    ) -> AsyncIterator[FailedMessage]:
        """The dead letters of all queues, newest first: numbers grow with time."""
        heap: list[tuple[int, str, list[FailedMessage]]] = []
        for config in queues:
            await self._push_dead_letters(heap, config.name, which, before, limit)
        while heap:
            _, queue, dead_letters = heapq.heappop(heap)
            dead_letter = dead_letters.pop()
            yield dead_letter
            if dead_letters:
                heapq.heappush(heap, (-dead_letters[-1].number, queue, dead_letters))
            else:
                await self._push_dead_letters(heap, queue, which, dead_letter.number, limit)

    async def _push_dead_letters(
        self,
        heap: list[tuple[int, str, list[FailedMessage]]],
        queue: str,
        which: DeadLetterQuery,
        before: int | None,
        limit: int,
    ) -> None:
        dead_letters = await self._dead_letters.list(
            queue,
            group=which.group,
            partition=which.partition,
            from_=which.from_,
            to=which.to,
            before=before,
            limit=limit,
        )
        if dead_letters:
            dead_letters.reverse()
            heapq.heappush(heap, (-dead_letters[-1].number, queue, dead_letters))
