"""Looking for trace events by name, among those that somebody may see."""

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
"""Events of a name, and names, that are counted at most."""


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
        """The events with a name. ``before`` is the ``next`` of the page before."""
        limit = self._limits.check_page(limit)
        found: list[TracedMessage] = []
        next_number = None
        async for event in self._named(name, visible, before):
            if offset:
                offset -= 1
                continue
            if len(found) == limit:
                next_number = found[-1].event.number
                break
            traced = await self._with_message(event)
            if traced is not None:
                found.append(traced)
        return EventPage(events=found, total=await self._count(name, visible), next=next_number)

    @current
    async def names(
        self, visible: QueueFilter, *, seeing_all: bool, offset: int = 0, limit: int | None = None
    ) -> NamePage:
        """The names that events carry. Who does not see all queues sees only what is in his."""
        limit = self._limits.check_page(limit)
        found: list[TraceName] = []
        total = 0
        async for name in self._names():
            seen = name if seeing_all else await self._seen(name.name, visible)
            if seen is None:
                continue
            if offset <= total < offset + limit:
                found.append(seen)
            total += 1
        return NamePage(names=found, total=total)

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

    async def _seen(self, name: str, visible: QueueFilter) -> TraceName | None:
        """A name with what somebody sees of it; None if that is nothing."""
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
