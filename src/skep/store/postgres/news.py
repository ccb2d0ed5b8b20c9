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
from skep.model.news import Grown, Happened, Moved, News
from skep.model.segment import Segment
from skep.store.clock import Clock
from skep.store.postgres.lane import Lane
from skep.store.postgres.opening import Opening
from skep.store.postgres.sql import QUERIES

T = TypeVar("T")

KEEP_SECONDS = 60
"""Who has heard nothing for longer reads everything again."""
_FORGET_SECONDS = 10

encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Happened).decode


class NewsRows(Opening):
    shared = True

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        super().__init__(url, clock=clock)
        self._told_at: deque[tuple[float, int]] = deque()

    async def news_heads(self) -> dict[int, int]:
        found = await (await self._db()).fetch("news_heads")
        return {row[0]: row[1] for row in found}

    async def news(self, seen: Mapping[int, int]) -> list[News]:
        database, lane = await self._db(), self._lane
        found = await database.fetch(
            "news", list(seen), list(seen.values()), lane.number, lane.told_before
        )
        if lane.in_doubt:
            found += await self._of_our_own()
        await self._forget()
        return [News(row[0], row[1], _decode(row[2])) for row in found]

    async def _of_our_own(self) -> list[asyncpg.Record]:
        """What a commit of ours told to whose end we were not there."""
        lane = self._lane
        found = await (await self._db()).fetch("own_news", lane.number, lane.told)
        unknown = [row for row in found if not lane.is_known(row[1])]
        for row in unknown:
            lane.note(row[1])
        return unknown

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

        async def whole(connection: asyncpg.Connection) -> tuple[T, int | None]:
            await self._lane.lock(connection)
            result, happened = await work(connection)
            return result, await tell(connection, self._lane, happened)

        try:
            result, number = await (await self._db()).commit(whole)
        except OutcomeUnknown:
            self._lane.doubt()
            raise
        self._lane.note(number)
        return result

    async def _forget(self) -> None:
        """Delete what we told a minute ago, now and then."""
        now, marks = time.monotonic(), self._told_at
        if not marks or now - marks[-1][0] >= _FORGET_SECONDS:
            marks.append((now, self._lane.told))
        if now - marks[0][0] < KEEP_SECONDS + _FORGET_SECONDS:
            return
        while len(marks) > 1 and now - marks[1][0] >= KEEP_SECONDS:
            marks.popleft()
        _, number = marks.popleft()

        async def work(connection: asyncpg.Connection) -> None:
            await connection.execute(QUERIES["forget_news"], self._lane.number, number)

        await (await self._db()).write(work)


async def tell(connection: asyncpg.Connection, lane: Lane, happened: Happened) -> int | None:
    """Let the others know, as soon as this is committed; nothing if nothing happened.

    Returns its number, which our lane is to note when it is committed.
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
    return number


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
    )


def _grown(segments: Sequence[Segment]) -> tuple[Grown, ...]:
    ends = {segment.partition: segment for segment in segments}
    return tuple([Grown(number, last.end, last.created_at) for number, last in ends.items()])


def _moved(changes: Sequence[Change], outcomes: Sequence[Outcome]) -> tuple[Moved, ...]:
    moved = {
        (update.partition, update.group): Moved(
            update.partition, update.group, update.subscription, update.state, update.under_lease
        )
        for change, outcome in zip(changes, outcomes, strict=True)
        if isinstance(outcome, Applied) and not outcome.repeated
        for update in change.consumers
    }
    return tuple(moved.values())
