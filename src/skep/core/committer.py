"""Gathers changes and commits them together: one write, one sync, many callers."""

import asyncio
from collections import deque
from collections.abc import Callable

from skep.errors import Closed, Overloaded
from skep.model.change import Change, Commit, Outcome
from skep.store.protocol import Store

ROUND_BYTES = 4 << 20
ROUND_CHANGES = 1000
"""What one commit takes at most, so that nobody waits long for somebody else's bytes."""

RETRY_AFTER = 1.0


class Committer:
    """Changes that arrive while a commit is under way go into the next one.

    An idle committer flushes at once. What waits is bounded in bytes: past that a caller is
    told to come back, so that a slow store does not turn into memory.

    ``follow`` is called with every commit, in order, before any caller hears of it.
    """

    def __init__(
        self, store: Store, follow: Callable[[list[Change], Commit], None], *, capacity: int
    ) -> None:
        self._store = store
        self._follow = follow
        self._capacity = capacity
        self._waiting: deque[tuple[Change, int, asyncio.Future[Outcome]]] = deque()
        self._bytes = 0
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def submit(self, change: Change) -> asyncio.Future[Outcome]:
        """The outcome of the change, once it is durable."""
        if self._closed:
            raise Closed
        weight = change.weight
        if self._bytes and self._bytes + weight > self._capacity:
            raise Overloaded(RETRY_AFTER)
        self._bytes += weight
        outcome = asyncio.get_running_loop().create_future()
        self._waiting.append((change, weight, outcome))
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        return outcome

    async def close(self) -> None:
        """Take no more, and finish what is waiting."""
        self._closed = True
        while self._task:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._commit(self._next_round())
        finally:
            self._task = None

    def _next_round(self) -> list[tuple[Change, int, asyncio.Future[Outcome]]]:
        taken = [self._waiting.popleft()]
        weight = taken[0][1]
        while self._waiting and len(taken) < ROUND_CHANGES:
            weight += self._waiting[0][1]
            if weight > ROUND_BYTES:
                break
            taken.append(self._waiting.popleft())
        return taken

    async def _commit(self, taken: list[tuple[Change, int, asyncio.Future[Outcome]]]) -> None:
        changes = [change for change, _, _ in taken]
        try:
            commit = await self._store.commit(changes)
            self._follow(changes, commit)
        except Exception as error:
            for _, _, outcome in taken:
                if not outcome.done():
                    outcome.set_exception(error)
        else:
            for (_, _, outcome), result in zip(taken, commit.outcomes, strict=True):
                if not outcome.done():
                    outcome.set_result(result)
        finally:
            self._bytes -= sum(weight for _, weight, _ in taken)
