"""Gathers changes and commits them together: one write, one sync, many callers."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from skep.errors import Closed, Corrupted, Overloaded, SkepError
from skep.model.change import Applied, Change, Commit, Outcome, Unreadable
from skep.store.protocol import Store

ROUND_BYTES = 4 << 20
ROUND_CHANGES = 1000
"""The limits of one commit, so that a small change does not wait long for large ones."""

RETRY_AFTER = 1.0


class _Submission(msgspec.Struct, gc=False):
    change: Change
    weight: int
    outcome: asyncio.Future[Outcome]
    settled: Callable[[bool], None] | None


class Committer:
    """Changes that arrive while a commit is under way go into the next one.

    An idle committer flushes at once. What waits is bounded in bytes: beyond that, callers are
    rejected as overloaded, so that a slow store does not fill the memory.

    Each of ``on_commit`` is called with every commit, in order, before any caller resumes, and then
    ``explain``, so that a caller that was refused because of another server knows what that did.
    """

    def __init__(
        self,
        store: Store,
        on_commit: Sequence[Callable[[list[Change], Commit], None]],
        explain: Callable[[list[Change], Commit], Awaitable[None]],
        *,
        capacity: int,
    ) -> None:
        self._store = store
        self._on_commit = on_commit
        self._explain = explain
        self._capacity = capacity
        self._waiting: deque[_Submission] = deque()
        self._bytes = 0
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def submit(
        self,
        change: Change,
        settled: Callable[[bool], None] | None = None,
        *,
        weight: int | None = None,
    ) -> asyncio.Future[Outcome]:
        """The outcome of the change, once it is durable; ``weight`` if it is known already.

        ``settled`` is always called once the change was applied or not, with which of the two,
        before any caller resumes: also if no caller waits any more, and if it is not accepted.
        """
        if weight is None:
            weight = change.weight
        try:
            self.check(weight)
        except BaseException:
            if settled:
                settled(False)
            raise
        self._bytes += weight
        outcome = asyncio.get_running_loop().create_future()
        self._waiting.append(_Submission(change, weight, outcome, settled))
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        return outcome

    async def confirm(self) -> None:
        """Return when all that was read before the call is durable, also on a synchronous standby.

        A record that was just written can be read before its sync has ended. Call this before a
        repeated request is answered from what is stored.
        """
        await self.submit(Change())

    def check(self, weight: int) -> None:
        """Raise if a change of this weight would not be taken now."""
        if self._closed:
            raise Closed
        if self._bytes and self._bytes + weight > self._capacity:
            raise Overloaded(RETRY_AFTER)

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

    def _next_round(self) -> list[_Submission]:
        taken = [self._waiting.popleft()]
        weight = taken[0].weight
        while self._waiting and len(taken) < ROUND_CHANGES:
            weight += self._waiting[0].weight
            if weight > ROUND_BYTES:
                break
            taken.append(self._waiting.popleft())
        return taken

    async def _commit(self, taken: list[_Submission]) -> None:
        changes = [submission.change for submission in taken]
        try:
            commit = await self._store.commit(changes)
            self._apply(changes, commit)
        except Exception as error:
            self._fail(taken, error)
        else:
            if self._store.shared:
                await self._explain(changes, commit)
            for submission, result in zip(taken, commit.outcomes, strict=True):
                self._bytes -= submission.weight
                if submission.settled:
                    submission.settled(isinstance(result, Applied) and not result.repeated)
            for submission, result in zip(taken, commit.outcomes, strict=True):
                if not submission.outcome.done():
                    _answer(submission.outcome, result)

    def _apply(self, changes: list[Change], commit: Commit) -> None:
        for apply in self._on_commit:
            apply(changes, commit)

    def _fail(self, taken: list[_Submission], error: Exception) -> None:
        for submission in taken:
            self._bytes -= submission.weight
            if submission.settled:
                submission.settled(False)
        if isinstance(error, SkepError):
            # Its traceback refers to the round, and the round to every payload and back: a cycle
            # that would be kept until the garbage collector runs, while ever more calls fail.
            error.with_traceback(None)
        for submission in taken:
            if not submission.outcome.done():
                submission.outcome.set_exception(error)


def _answer(caller: asyncio.Future[Outcome], result: Outcome) -> None:
    if isinstance(result, Unreadable):
        caller.set_exception(Corrupted(result.reason))
    else:
        caller.set_result(result)
