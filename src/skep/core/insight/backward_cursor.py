"""Cursors that read the log backwards: along a lane of a queue's journal, or along one partition.

Several cursors together are read newest first. Messages of one commit are equally old, also in
different queues, so equally old messages are ordered by the keys of their cursors: a position in
all of them together is one instant, one key and one position.
"""

import re
from typing import NamedTuple, Protocol

from skep.errors import Invalid
from skep.model.name import Instant, check_text
from skep.model.segment import Segment
from skep.store.protocol import LogStore

_TOKEN = re.compile(r"(-?[0-9]{1,19})\.([0-9]{1,19})\.([0-9]{1,19})\.([0-9]{1,19})")


class LogPosition(NamedTuple):
    """A position in several cursors: everything newer was read."""

    created_at: Instant
    key: tuple[int, int]
    position: int

    def encode(self) -> str:
        return f"{self.created_at}.{self.key[0]}.{self.key[1]}.{self.position}"


def decode_position(before: object) -> LogPosition:
    text = check_text("before", before)
    match = _TOKEN.fullmatch(text)
    if match is None:
        raise Invalid("before", f"{text[:64]!r} is not the next token of a page")
    created_at, first, second, position = map(int, match.groups())
    return LogPosition(created_at, (first, second), position)


class BackwardCursor(Protocol):
    """Reads a sequence of segments backwards. A position is between two messages."""

    key: tuple[int, int]

    async def end(self) -> int: ...

    async def position_at(self, moment: Instant) -> int:
        """The position before the first message that was pushed at ``moment`` or later."""
        ...

    async def last_before(self, position: int) -> Segment | None:
        """The segment with the message before a position."""
        ...

    def start_of(self, segment: Segment) -> int:
        """The position before the first message of a segment."""
        ...


class JournalCursor:
    """Reads one lane of a queue: everything that one server committed."""

    def __init__(self, store: LogStore, queue: int, lane: int, head: int) -> None:
        self._store = store
        self._head = head
        self.key = queue, lane

    async def end(self) -> int:
        return self._head

    async def position_at(self, moment: Instant) -> int:
        low, high = 0, self._head
        while low < high:
            middle = (low + high) // 2
            segments = await self._store.read_journal(*self.key, middle, limit=1)
            if segments and segments[0].created_at < moment:
                low = segments[0].position + len(segments[0].columns)
            else:
                high = middle
        return min(low, self._head)

    async def last_before(self, position: int) -> Segment | None:
        segments = await self._store.read_journal(*self.key, position, limit=1, backwards=True)
        return segments[0] if segments else None

    def start_of(self, segment: Segment) -> int:
        return segment.position


class PartitionCursor:
    """Reads one partition of a queue."""

    def __init__(self, store: LogStore, queue: int, partition: int, start: int, end: int) -> None:
        self._store = store
        self._start = start
        self._end = end
        self._partition = partition
        self.key = queue, partition

    async def end(self) -> int:
        return self._end

    async def position_at(self, moment: Instant) -> int:
        return min(self._end, await self._store.offset_at(self._partition, moment))

    async def last_before(self, position: int) -> Segment | None:
        if position <= self._start:
            return None
        segments = await self._store.read(self._partition, position - 1, messages=1, size=1)
        return segments[0] if segments and segments[0].start < position else None

    def start_of(self, segment: Segment) -> int:
        return segment.start


async def start_position(
    cursor: BackwardCursor, before: LogPosition | None, stop: Instant | None
) -> int:
    """Where a cursor starts: after what was read before, and before ``stop``."""
    if before is None:
        return await (cursor.end() if stop is None else cursor.position_at(stop))
    if cursor.key == before.key:
        return min(before.position, await cursor.end())
    # Of equally old messages, those of cursors with greater keys were read first.
    return await cursor.position_at(before.created_at + (cursor.key < before.key))
