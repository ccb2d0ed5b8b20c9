"""Finds trace events by name, in queues that are visible to the caller."""

from collections.abc import AsyncIterator

from skep.core.admin.trace import Traces
from skep.core.cluster.peer_sync import PeerSync, current
from skep.core.limits import Limits
from skep.core.log.segment_reader import SegmentReader
from skep.core.state.registry import Registry
from skep.core.visibility import QueueFilter
from skep.model.message_view import EventPage, NamePage, TracedMessage
from skep.model.trace import TraceEvent, TraceName

MAX_COUNTED = 100_000
"""The most events of a name, and names, that are counted."""


class TraceSearch:
    def __init__(
        self,
        registry: Registry,
        peer_sync: PeerSync,
        traces: Traces,
        segment_reader: SegmentReader,
        limits: Limits,
    ) -> None:
        self._peer_sync = peer_sync
        self._registry = registry
        self._traces = traces
        self._segment_reader = segment_reader
        self._limits = limits

    @current
    async def events(
        self,
        name: str,
        visible: QueueFilter,
        *,
        before: int | None = None,
        offset: int = 0,
        limit: int | None = None,
    ) -> EventPage:
        """The events with a name. ``before`` is the ``next`` of the previous page."""
        limit = self._limits.check_page(limit)
        traced: list[TracedMessage] = []
        next_number = None
        async for event in self._named(name, visible, before):
            if offset:
                offset -= 1
                continue
            if len(traced) == limit:
                next_number = traced[-1].event.number
                break
            with_message = await self._with_message(event)
            if with_message is not None:
                traced.append(with_message)
        return EventPage(events=traced, total=await self._count(name, visible), next=next_number)

    @current
    async def names(
        self, visible: QueueFilter, *, seeing_all: bool, offset: int = 0, limit: int | None = None
    ) -> NamePage:
        """The names that events carry; only of visible queues unless ``seeing_all``."""
        limit = self._limits.check_page(limit)
        names: list[TraceName] = []
        total = 0
        async for name in self._names():
            shown = name if seeing_all else await self._visible_part(name.name, visible)
            if shown is None:
                continue
            if offset <= total < offset + limit:
                names.append(shown)
            total += 1
        return NamePage(names=names, total=total)

    async def _named(
        self, name: str, visible: QueueFilter, before: int | None
    ) -> AsyncIterator[TraceEvent]:
        while events := await self._traces.named(name, before=before, limit=self._limits.page):
            for event in events:
                partition = self._registry.find_partition(event.partition)
                if partition is not None and visible(partition.queue.config.name):
                    yield event
            before = events[-1].number

    async def _names(self) -> AsyncIterator[TraceName]:
        after, count = "", 0
        while count < MAX_COUNTED and (
            names := await self._traces.names(after=after, limit=self._limits.page)
        ):
            for name in names:
                yield name
            after, count = names[-1].name, count + len(names)

    async def _count(self, name: str, visible: QueueFilter) -> int:
        count = 0
        async for _ in self._named(name, visible, None):
            count += 1
            if count == MAX_COUNTED:
                break
        return count

    async def _visible_part(self, name: str, visible: QueueFilter) -> TraceName | None:
        """A name with the counts of its visible events; None if there are none."""
        events = [event async for event in self._named(name, visible, None)]
        if not events:
            return None
        return TraceName(
            name=name,
            events=len(events),
            messages=len({(event.partition, event.offset) for event in events}),
            last_seen_at=events[0].created_at,
        )

    async def _with_message(self, event: TraceEvent) -> TracedMessage | None:
        partition = self._registry.find_partition(event.partition)
        message = partition and await self._segment_reader.message(partition, event.offset)
        return TracedMessage(event=event, message=message) if message else None
