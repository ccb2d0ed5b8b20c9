"""Loading large queues, and looking at all partitions of a group again, in the background.

A queue may have a million partitions. Whatever concerns all of them is done in steps, between
which requests are answered: a push, and a pop that finds something, need only one of them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import islice

from skep.core.fairness import next_slice
from skep.core.repeating import report
from skep.core.state import GroupState, PartitionState, QueueState
from skep.model.queue import Partition

PAGE = 200
"""Partitions that are loaded, or looked at, in one step."""

_RETRY_SECONDS = 1.0
_log = logging.getLogger("skep.loader")


class Loader:
    """Loads the partitions of queues page by page.

    ``load_page`` loads the partitions behind one, and returns the last if there may be more;
    ``finished`` is called with every queue that is loaded.
    """

    def __init__(
        self,
        load_page: Callable[[QueueState, Partition], Awaitable[Partition | None]],
        finished: Callable[[QueueState], None],
    ) -> None:
        self._load_page = load_page
        self._finished = finished
        self._queues: dict[QueueState, Partition] = {}
        self._task: asyncio.Task[None] | None = None
        self._all_loaded: asyncio.Future[None] | None = None

    def start(self, queue: QueueState, after: Partition | None) -> None:
        """Load the partitions of a queue that come behind one; None if there are no more."""
        if after is None:
            self._finish(queue)
            return
        self._queues[queue] = after
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    @property
    def idle(self) -> bool:
        return not self._queues

    async def finish(self) -> None:
        """Return when everything is loaded; raise if that fails meanwhile."""
        while self._queues:
            if self._all_loaded is None:
                self._all_loaded = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._all_loaded)

    async def stop(self) -> None:
        self._queues.clear()
        if self._task:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            while self._queues:
                try:
                    await self._step()
                except Exception as error:
                    report(_log, f"loading partitions failed; retry in {_RETRY_SECONDS} s", error)
                    self._wake(error)
                    await asyncio.sleep(_RETRY_SECONDS)
        finally:
            self._task = None
            self._wake()

    async def _step(self) -> None:
        queue, after = next(iter(self._queues.items()))
        try:
            last = await self._load_page(queue, after)
        except Exception:
            # The other queues come first when it is tried again.
            self._queues[queue] = self._queues.pop(queue)
            raise
        if last is None:
            del self._queues[queue]
            self._finish(queue)
        else:
            self._queues[queue] = last
        await next_slice()

    def _finish(self, queue: QueueState) -> None:
        queue.loaded = True
        self._finished(queue)

    def _wake(self, error: Exception | None = None) -> None:
        """Answer everyone who waits until all is loaded."""
        waited, self._all_loaded = self._all_loaded, None
        if waited is None:
            return
        if error is None:
            waited.set_result(None)
        else:
            waited.set_exception(error)
            # Whoever waited may have gone: then nobody else asks for it.
            waited.exception()


class Refresher:
    """Looks at all partitions of a group again, step by step.

    ``finished`` is called with every group of which all partitions were looked at.
    """

    def __init__(
        self,
        refresh: Callable[[GroupState, PartitionState], None],
        finished: Callable[[GroupState], None],
    ) -> None:
        self._refresh = refresh
        self._finished = finished
        self._groups: dict[GroupState, Iterator[PartitionState]] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, group: GroupState) -> None:
        """Refresh all partitions of a group: at once if they are few."""
        partitions = list(group.queue.partitions.values())
        if len(partitions) <= PAGE:
            self._groups.pop(group, None)
            self._refresh_some(group, partitions)
            return
        self._groups[group] = iter(partitions)
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    def __contains__(self, group: GroupState) -> bool:
        return group in self._groups

    def stop(self) -> None:
        self._groups.clear()

    async def _run(self) -> None:
        try:
            while self._groups:
                group, partitions = next(iter(self._groups.items()))
                some = list(islice(partitions, PAGE))
                if group.removed or not some:
                    del self._groups[group]
                    self._finished(group)
                self._refresh_some(group, some)
                await next_slice()
        finally:
            self._task = None

    def _refresh_some(self, group: GroupState, some: Iterable[PartitionState]) -> None:
        known = group.queue.partitions
        for partition in some:
            if known.get(partition.name) is partition:
                self._refresh(group, partition)
