"""Loading large queues, and looking at all partitions of a group again, in the background.

A queue may have a million partitions. Whatever concerns all of them is done in steps, between
which requests are answered: a push, and a pop that finds something, need only one of them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import islice
from typing import Generic, TypeVar

from skep.core.aio import log_failure, next_slice
from skep.core.state.queue_state import GroupState, PartitionState

PAGE = 200
"""Partitions that are loaded, or looked at, in one step."""

T = TypeVar("T")
P = TypeVar("P")
_RETRY_SECONDS = 1.0
_log = logging.getLogger("skep.loader")


class BackgroundLoader(Generic[T, P]):
    """Loads what belongs to queues, or to groups, page by page.

    ``load_page`` loads what comes behind a place, and returns the last place if there may be more;
    ``finished`` is called with everything that is loaded.
    """

    def __init__(
        self, load_page: Callable[[T, P], Awaitable[P | None]], finished: Callable[[T], None]
    ) -> None:
        self._load_page = load_page
        self._finished = finished
        self._places: dict[T, P] = {}
        self._task: asyncio.Task[None] | None = None
        self._loaded: dict[T, asyncio.Future[None]] = {}
        """What requests wait for."""

    def start(self, item: T, after: P | None) -> None:
        """Load what comes behind a place; None if there is no more."""
        if after is None:
            self._finish(item)
            return
        self._places[item] = after
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    @property
    def idle(self) -> bool:
        return not self._places

    def __contains__(self, item: T) -> bool:
        return item in self._places

    def __iter__(self) -> Iterator[T]:
        return iter(self._places)

    async def finish(self, item: T) -> None:
        """Return when something is loaded; raise if that fails meanwhile."""
        while item in self._places:
            loaded = self._loaded.get(item)
            if loaded is None:
                loaded = self._loaded[item] = asyncio.get_running_loop().create_future()
            await asyncio.shield(loaded)

    async def finish_all(self) -> None:
        """Return when everything is loaded; raise if that fails meanwhile."""
        while self._places:
            await self.finish(next(iter(self._places)))

    async def stop(self) -> None:
        self._places.clear()
        if self._task:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            while self._places:
                try:
                    await self._step()
                except Exception as error:
                    delay = f"{_RETRY_SECONDS}s"
                    log_failure(_log, "could not load partitions, retrying", error, delay=delay)
                    for item in list(self._loaded):
                        self._wake(item, error)
                    await asyncio.sleep(_RETRY_SECONDS)
        finally:
            self._task = None
            for item in list(self._loaded):
                self._wake(item)

    async def _step(self) -> None:
        # What a request waits for comes first.
        item = next(iter(self._loaded.keys() & self._places.keys() or self._places))
        try:
            last = await self._load_page(item, self._places[item])
        except Exception:
            # The others come first when it is tried again.
            self._places[item] = self._places.pop(item)
            raise
        if last is None:
            del self._places[item]
            self._finish(item)
        else:
            self._places[item] = last
        await next_slice()

    def _finish(self, item: T) -> None:
        self._finished(item)
        self._wake(item)

    def _wake(self, item: T, error: Exception | None = None) -> None:
        """Resolve every request that waits for an item."""
        waited = self._loaded.pop(item, None)
        if waited is None:
            return
        if error is None:
            waited.set_result(None)
        else:
            waited.set_exception(error)
            # The request may have been cancelled: then no other retrieves the error.
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
