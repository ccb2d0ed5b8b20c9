"""Telling the other servers what happened, and hearing what they tell."""

import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TypeVar

import asyncpg
import msgspec

from skep.errors import OutcomeUnknown
from skep.model.change import Applied, Change, Outcome
from skep.model.peer_event import ConsumerUpdated, Grown, Happened, News
from skep.model.segment import Segment
from skep.store.clock import Clock
from skep.store.postgres.lane import ALONE_SECONDS, Lane
from skep.store.postgres.session import Opening
from skep.store.postgres.sql import QUERIES

T = TypeVar("T")

KEEP_SECONDS = 60
"""Who has heard nothing for longer reads everything again."""
_FORGET_SECONDS = 10

encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Happened).decode


class Positions:
    """Up to which number the events of each lane are known: heard of, or our own.

    Lanes change hands, so neither all events of our lane are ours nor all of ours are on it.
    """

    def __init__(self) -> None:
        self.known: dict[int, int] = {}
        self._ahead: dict[int, set[int]] = {}

    def reset(self, heads: Mapping[int, int]) -> None:
        self.known = dict(heads)
        self._ahead.clear()

    def note(self, lane: int, number: int) -> None:
        """An event is known. Those before it may not be."""
        ahead = self._ahead.setdefault(lane, set())
        ahead.add(number)
        known = self.known.get(lane, 0)
        while known + 1 in ahead:
            known += 1
        ahead -= {each for each in ahead if each <= known}
        self.known[lane] = known

    @property
    def has_gaps(self) -> bool:
        """Whether something before an event that is known is not."""
        return any(self._ahead.values())

    def is_known(self, lane: int, number: int) -> bool:
        return number <= self.known.get(lane, 0) or number in self._ahead.get(lane, ())


class NewsRows(Opening):
    shared = True

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        super().__init__(url, clock=clock)
        self._positions = Positions()
        self._last_told = (-1, 0)
        """The lane and the number of our last event."""
        self._alone_until = 0.0
        self._alone_once_heard = 0.0
        """The same, as soon as the events that came with it are applied."""
        self._marks: deque[tuple[float, int, int]] = deque()
        """When which event of ours was the last, on which lane."""

    async def begin_news(self) -> None:
        found = await (await self._db()).fetch("news_heads")
        self._positions.reset({row[0]: row[1] for row in found})

    async def news(self) -> list[News] | None:
        database, lane, positions = await self._db(), self._lane, self._positions
        if lane.is_due:
            await database.write(lane.keep)
            self.lane = lane.number
        known, asked_at, steady = positions.known, time.monotonic(), self._told.steady()
        in_doubt = lane.in_doubt or positions.has_gaps
        found = await database.fetch(
            "news", list(known), list(known.values()), lane.owner, in_doubt
        )
        await self._forget()
        self._told.learn(found[0][1], steady)
        has_peers, events = found[0][0], [row[2:] for row in found if row[2] is not None]
        if any(row[1] > known.get(row[0], 0) + 1 for row in events):
            return None
        self._alone_once_heard = 0 if has_peers or in_doubt else asked_at + ALONE_SECONDS
        return [
            News(row[0], row[2], _decode(row[3]))
            for row in events
            if row[2] is not None and not positions.is_known(row[0], row[2])
        ]

    @property
    def has_peers(self) -> bool:
        return time.monotonic() >= self._alone_until

    def heard(self, news: Iterable[News]) -> None:
        for each in news:
            self._positions.note(each.lane, each.number)
        self._alone_until, self._alone_once_heard = self._alone_once_heard, 0.0

    def _note_told(self, event: tuple[int, int] | None) -> None:
        """We have published an event, if any: its lane and its number."""
        if event is not None:
            self._last_told = event
            self._positions.note(*event)

    async def take_duty(self, name: str, seconds: float) -> bool:
        async def work(connection: asyncpg.Connection) -> bool:
            owner, until = self._lane.owner, timedelta(seconds=seconds)
            return bool(await connection.fetch(QUERIES["take_duty"], name, owner, until))

        return await (await self._db()).write(work)

    async def _write_and_tell(
        self, work: Callable[[asyncpg.Connection], Awaitable[tuple[T, Happened]]]
    ) -> T:
        """Do something between two commits, and tell of it with it.

        A commit that waited for the lane would see what was before, and have to be done again. The
        lane is locked first, as commits do it: in another order they would wait for each other.
        """

        async def whole(connection: asyncpg.Connection) -> tuple[T, tuple[int, int] | None]:
            await self._lane.lock(connection)
            result, happened = await work(connection)
            return result, await tell(connection, self._lane, happened)

        try:
            result, number = await (await self._db()).commit(whole)
        except OutcomeUnknown:
            self._lane.doubt()
            raise
        self._note_told(number)
        await self._lane.announce()
        return result

    async def _forget(self) -> None:
        """Delete events that we published a minute ago, now and then."""
        now, marks = time.monotonic(), self._marks
        if not marks or now - marks[-1][0] >= _FORGET_SECONDS:
            marks.append((now, *self._last_told))
        if now - marks[0][0] < KEEP_SECONDS + _FORGET_SECONDS:
            return
        while len(marks) > 1 and now - marks[1][0] >= KEEP_SECONDS:
            marks.popleft()
        _, lane, number = marks.popleft()

        async def work(connection: asyncpg.Connection) -> None:
            await connection.execute(QUERIES["forget_news"], lane, number)

        await (await self._db()).write(work)


async def tell(
    connection: asyncpg.Connection, lane: Lane, happened: Happened
) -> tuple[int, int] | None:
    """Let the others know, as soon as this is committed; nothing if nothing happened.

    Returns its lane and number, which are to be noted when it is committed.
    """
    if happened == _NOTHING:
        return None
    content = encode(happened)
    number: int | None = await connection.fetchval(
        QUERIES["tell"], lane.number, lane.owner, content
    )
    if number is None:
        await lane.take(connection)
        number = await connection.fetchval(QUERIES["tell"], lane.number, lane.owner, content)
    await lane.renew(connection)
    return None if number is None else (lane.number, number)


_NOTHING = Happened()


def happened_in(
    changes: Sequence[Change],
    outcomes: Sequence[Outcome],
    segments: Sequence[Segment],
    spaces: Iterable[str],
) -> Happened:
    """What a commit did, for those who were not there."""
    return Happened(
        grown=_grown(segments),
        moved=_moved(changes, outcomes),
        spaces=tuple(sorted(set(spaces))),
        letters=_letters(changes, outcomes),
    )


def _letters(changes: Sequence[Change], outcomes: Sequence[Outcome]) -> tuple[int, ...]:
    queues: set[int] = set()
    for change, outcome in zip(changes, outcomes, strict=True):
        if isinstance(outcome, Applied) and not outcome.repeated:
            queues.update(letter.queue for letter in change.dead_letters)
            queues.update(removal.queue for removal in change.removals)
    return tuple(queues)


def _grown(segments: Sequence[Segment]) -> tuple[Grown, ...]:
    ends = {segment.partition: segment for segment in segments}
    return tuple(
        [Grown(number, last.end, last.created_at, last.start) for number, last in ends.items()]
    )


def _moved(changes: Sequence[Change], outcomes: Sequence[Outcome]) -> tuple[ConsumerUpdated, ...]:
    moved = {
        (update.partition, update.group): ConsumerUpdated(
            update.partition,
            update.group,
            update.subscription,
            update.state,
            update.lease is not None,
            update.queue,
        )
        for change, outcome in zip(changes, outcomes, strict=True)
        if isinstance(outcome, Applied) and not outcome.repeated
        for update in change.consumers
    }
    return tuple(moved.values())
