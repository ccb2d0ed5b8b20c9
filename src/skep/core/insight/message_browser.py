"""Lists messages of several queues, newest first, in pages."""

import asyncio
import heapq
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from uuid import UUID

from skep.core.cluster.peer_sync import PeerSync, current
from skep.core.insight.backward_cursor import (
    BackwardCursor,
    JournalCursor,
    LogPosition,
    PartitionCursor,
    decode_position,
    start_position,
)
from skep.core.insight.message_inspector import MessageInspector
from skep.core.limits import Limits
from skep.core.state.registry import Registry
from skep.model.message_view import MessagePage, MessageView
from skep.model.name import Instant, from_datetime
from skep.model.queue import Queue
from skep.model.segment import Segment
from skep.model.stats import MessageStatus
from skep.store.protocol import LogStore

MAX_LOOKED_AT = 10_000
"""Messages that are read for one page, whether or not they match."""
_STEP = 50
"""Reads before other tasks run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFilter:
    """Which messages are listed; a field that is None does not restrict."""

    partition: str | None = None
    status: MessageStatus | None = None
    from_: datetime | None = None
    to: datetime | None = None


@dataclass(slots=True)
class _Search:
    """A page while it is being filled."""

    limit: int
    skip: int
    bytes_left: int
    messages: list[MessageView] = field(default_factory=list)
    looked_at: int = 0
    position: LogPosition | None = None

    @property
    def is_over(self) -> bool:
        full = len(self.messages) >= self.limit or self.bytes_left <= 0
        return full or self.looked_at >= MAX_LOOKED_AT

    def take(self, view: MessageView) -> None:
        if self.skip:
            self.skip -= 1
            return
        self.messages.append(view)
        self.bytes_left -= len(view.message.payload)


class MessageBrowser:
    def __init__(
        self,
        store: LogStore,
        registry: Registry,
        peer_sync: PeerSync,
        inspector: MessageInspector,
        limits: Limits,
    ) -> None:
        self._peer_sync = peer_sync
        self._store = store
        self._registry = registry
        self._inspector = inspector
        self._limits = limits

    async def get(self, message_id: UUID) -> MessageView:
        """One message with its payload and its status in each group."""
        self._registry.check_open()
        return await self._inspector.message(message_id)

    @current
    async def page(
        self,
        queues: Iterable[Queue],
        which: MessageFilter,
        *,
        payloads: bool,
        before: str | None = None,
        offset: int = 0,
        limit: int | None = None,
    ) -> MessagePage:
        """Messages of queues. ``before`` is the ``next`` of the previous page."""
        after = None if before is None else decode_position(before)
        cursors = await self._cursors(queues, which.partition)
        search = _Search(self._limits.check_page(limit), offset, self._limits.pop_bytes)
        more = False
        async for cursor, segment, position in self._newest(cursors, which, after):
            if search.is_over:
                more = True
                break
            more = await self._add(search, which.status, payloads, cursor, segment, position)
        token = search.position.encode() if more and search.position else None
        return MessagePage(messages=search.messages, next=token)

    async def _cursors(
        self, queues: Iterable[Queue], partition: str | None
    ) -> list[BackwardCursor]:
        cursors: list[BackwardCursor] = []
        for config in queues:
            state = self._registry.queues.get(config.name)
            known = state.partitions.get(partition) if state and partition is not None else None
            if known is not None:
                cursors.append(
                    PartitionCursor(
                        self._store, config.number, known.number, known.start, known.end
                    )
                )
            elif state is not None and partition is None:
                heads = await self._store.heads(config.number)
                cursors += (
                    JournalCursor(self._store, config.number, lane, head)
                    for lane, head in heads.items()
                )
        return cursors

    async def _newest(
        self, cursors: Sequence[BackwardCursor], which: MessageFilter, before: LogPosition | None
    ) -> AsyncIterator[tuple[BackwardCursor, Segment, int]]:
        """Segments of all cursors, newest first, each with the position to read back from."""
        start = 0 if which.from_ is None else from_datetime("from", which.from_)
        stop = None if which.to is None else from_datetime("to", which.to)
        heap: list[tuple[Instant, tuple[int, int], BackwardCursor, Segment, int]] = []
        for cursor in cursors:
            await _push(heap, cursor, await start_position(cursor, before, stop), start)
        for reads in count(1):
            if not heap:
                return
            _, _, cursor, segment, position = heapq.heappop(heap)
            yield cursor, segment, position
            await _push(heap, cursor, cursor.start_of(segment), start)
            if reads % _STEP == 0:
                await asyncio.sleep(0)

    async def _add(
        self,
        search: _Search,
        status: MessageStatus | None,
        payloads: bool,
        cursor: BackwardCursor,
        segment: Segment,
        position: int,
    ) -> bool:
        """Add the messages of a segment to the page, from a position back to its start.

        True if the page was full before the start.
        """
        first = cursor.start_of(segment)
        inspected = await self._inspector.segment(segment, payloads=payloads)
        for at in range(min(position, first + len(segment.columns)) - 1, first - 1, -1):
            if search.is_over:
                return True
            search.looked_at += 1
            search.position = LogPosition(segment.created_at, cursor.key, at)
            view = inspected.view(segment.start + at - first)
            if view is not None and status in (None, view.status):
                search.take(view)
        return False


async def _push(
    heap: list[tuple[Instant, tuple[int, int], BackwardCursor, Segment, int]],
    cursor: BackwardCursor,
    position: int,
    start: Instant,
) -> None:
    segment = await cursor.last_before(position)
    if segment is not None and segment.created_at >= start:
        key = -cursor.key[0], -cursor.key[1]
        heapq.heappush(heap, (-segment.created_at, key, cursor, segment, position))
