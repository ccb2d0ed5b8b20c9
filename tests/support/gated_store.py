"""A store that answers when the test lets it."""

import asyncio
from collections import deque
from collections.abc import Sequence

from skep.errors import OutcomeUnknown
from skep.model.change import Change, Commit
from skep.model.queue import Partition
from skep.store.clock import Clock
from skep.store.memory import MemoryStore


class GatedStore(MemoryStore):
    """A store in memory whose commits can be held back, before or after the write, or fail."""

    def __init__(self, *, clock: Clock) -> None:
        super().__init__(clock=clock)
        self.rounds: list[int] = []
        """How many changes each commit had."""
        self.births: list[int] = []
        """How many partitions were asked for at once."""
        self._before, self._after = asyncio.Event(), asyncio.Event()
        self._bearing = asyncio.Event()
        self._failures: deque[Exception] = deque()
        self.release()

    def hold(self) -> None:
        """Keep what comes from being written."""
        self._before.clear()

    def hold_answers(self) -> None:
        """Write what comes, and keep the answer."""
        self._after.clear()

    def hold_births(self) -> None:
        """Keep partitions from being made."""
        self._bearing.clear()

    def release(self) -> None:
        self._bearing.set()
        self._before.set()
        self._after.set()

    async def is_committing(self) -> bool:
        """Whether a commit has reached the store."""
        return bool(self.rounds)

    async def released(self) -> None:
        await self._before.wait()

    def fail_next(self) -> None:
        """Let the next commit fail before it has written anything."""
        self._failures.append(OutcomeUnknown("the store could not write"))

    async def create_partitions(self, queue: int, names: Sequence[str]) -> list[Partition]:
        self.births.append(len(names))
        await self._bearing.wait()
        return await super().create_partitions(queue, names)

    async def commit(self, changes: Sequence[Change]) -> Commit:
        self.rounds.append(len(changes))
        await self._before.wait()
        if self._failures:
            raise self._failures.popleft()
        done = await super().commit(changes)
        await self._after.wait()
        return done
