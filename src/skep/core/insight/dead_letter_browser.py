"""Looking at dead letters of many queues, newest first, a page at a time."""

import heapq
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from skep.core.admin.dead_letter import DeadLetters
from skep.core.cluster.peer_sync import PeerSync, current
from skep.core.limits import Limits
from skep.core.state.registry import Registry
from skep.model.dead_letter import FailedMessage
from skep.model.message_view import LetterPage
from skep.model.queue import Queue


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """Which dead letters are meant; what is None does not restrict."""

    group: str | None = None
    partition: str | None = None
    from_: datetime | None = None
    to: datetime | None = None


class DeadLetterBrowser:
    def __init__(
        self,
        registry: Registry,
        peer_sync: PeerSync,
        letters: DeadLetters,
        limits: Limits,
    ) -> None:
        self._peer_sync = peer_sync
        self._registry = registry
        self._dead_letters = letters
        self._limits = limits

    @current
    async def page(
        self,
        queues: Sequence[Queue],
        which: LetterFilter,
        *,
        before: int | None = None,
        offset: int = 0,
        limit: int | None = None,
    ) -> LetterPage:
        """Dead letters of some queues. ``before`` is the ``next`` of the page before."""
        limit = self._limits.check_page(limit)
        queues = [config for config in queues if self._has_partition(config, which.partition)]
        found: list[FailedMessage] = []
        async for letter in self._newest_letters(queues, which, before, limit):
            if offset:
                offset -= 1
            elif len(found) < limit:
                found.append(letter)
            else:
                return LetterPage(
                    letters=found, total=await self._total(queues, which), next=found[-1].number
                )
        return LetterPage(letters=found, total=await self._total(queues, which), next=None)

    @current
    async def find(
        self, partition: int, transaction_id: str, *, group: str | None = None
    ) -> FailedMessage | None:
        """The newest dead letter of a message, which itself need not be kept any more."""
        state = self._registry.find_partition(partition)
        if state is None:
            return None
        before = None
        while letters := await self._dead_letters.list(
            state.queue.config.name,
            group=group,
            partition=state.name,
            before=before,
            limit=self._limits.page,
        ):
            for letter in letters:
                if letter.transaction_id == transaction_id:
                    return letter
            before = letters[-1].number
        return None

    def _has_partition(self, config: Queue, partition: str | None) -> bool:
        state = self._registry.queues.get(config.name)
        return state is not None and (partition is None or partition in state.partitions)

    async def _total(self, queues: Iterable[Queue], which: LetterFilter) -> int:
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

    async def _newest_letters(
        self, queues: Iterable[Queue], which: LetterFilter, before: int | None, limit: int
    ) -> AsyncIterator[FailedMessage]:
        """The letters of all queues by their numbers, which are given in the order of time."""
        heap: list[tuple[int, str, list[FailedMessage]]] = []
        for config in queues:
            await self._push_letters(heap, config.name, which, before, limit)
        while heap:
            _, queue, letters = heapq.heappop(heap)
            letter = letters.pop()
            yield letter
            if letters:
                heapq.heappush(heap, (-letters[-1].number, queue, letters))
            else:
                await self._push_letters(heap, queue, which, letter.number, limit)

    async def _push_letters(
        self,
        heap: list[tuple[int, str, list[FailedMessage]]],
        queue: str,
        which: LetterFilter,
        before: int | None,
        limit: int,
    ) -> None:
        letters = await self._dead_letters.list(
            queue,
            group=which.group,
            partition=which.partition,
            from_=which.from_,
            to=which.to,
            before=before,
            limit=limit,
        )
        if letters:
            letters.reverse()
            heapq.heappush(heap, (-letters[-1].number, queue, letters))
