"""Publishes what this server wrote to its peers, and reads what they published."""

import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import asyncpg
import msgspec

from skep.errors import OutcomeUnknown
from skep.model.change import Applied, Change, Outcome
from skep.model.peer_event import CommitEffects, ConsumerUpdated, PartitionAppended, PeerEvent
from skep.model.segment import Segment
from skep.store.postgres.lane import ALONE_SECONDS, Lane
from skep.store.postgres.session import PostgresSession
from skep.store.postgres.sql import QUERIES

T = TypeVar("T")

KEEP_SECONDS = 60
"""A server that has read no event for longer reloads all state."""
_FORGET_SECONDS = 10

encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(CommitEffects).decode


class Positions:
    """Up to which number the events of each lane are applied here, or were published from here.

    Lanes change owners, so some events of our lane are not ours, and some of ours are on others.
    """

    def __init__(self) -> None:
        self.known: dict[int, int] = {}
        self._ahead: dict[int, set[int]] = {}

    def reset(self, heads: Mapping[int, int]) -> None:
        self.known = dict(heads)
        self._ahead.clear()

    def note(self, lane: int, number: int) -> None:
        """Mark one event as applied. Earlier ones of its lane may be missing."""
        ahead = self._ahead.setdefault(lane, set())
        ahead.add(number)
        known = self.known.get(lane, 0)
        while known + 1 in ahead:
            known += 1
        ahead -= {each for each in ahead if each <= known}
        self.known[lane] = known

    @property
    def has_gaps(self) -> bool:
        """Whether an event is missing before one that is applied."""
        return any(self._ahead.values())

    def is_known(self, lane: int, number: int) -> bool:
        return number <= self.known.get(lane, 0) or number in self._ahead.get(lane, ())


class PeerFeed:
    """The events of all servers that share the database, each lane in its order."""

    def __init__(self, session: PostgresSession) -> None:
        self._session = session
        self._positions = Positions()
        self._last_published = (-1, 0)
        """The lane and the number of our last event."""
        self._alone_until = 0.0
        self._alone_once_applied = 0.0
        """The next value of ``_alone_until``, as soon as the events read with it are applied."""
        self._marks: deque[tuple[float, int, int]] = deque()
        """Points in time, each with the lane and number of our last event before it."""

    async def start_peer_events(self) -> None:
        found = await self._session.fetch("peer_event_heads")
        self._positions.reset({row["lane"]: row["number"] for row in found})

    async def peer_events(self) -> list[PeerEvent] | None:
        connections = await self._session.connections()
        lane, clock, positions = self._session.lane, self._session.database_clock, self._positions
        if lane.is_due:
            await connections.write(lane.keep)
        known, asked_at, steady = positions.known, time.monotonic(), clock.steady()
        in_doubt = lane.in_doubt or positions.has_gaps
        rows = await connections.fetch(
            "peer_events", list(known), list(known.values()), lane.owner, in_doubt
        )
        await self._delete_old_events()
        clock.learn(rows[0]["now"], steady)
        has_peers = rows[0]["has_peers"]
        events = [row for row in rows if row["lane"] is not None]
        if any(row["next"] > known.get(row["lane"], 0) + 1 for row in events):
            return None
        self._alone_once_applied = 0 if has_peers or in_doubt else asked_at + ALONE_SECONDS
        return [
            PeerEvent(row["lane"], row["number"], _decode(row["content"]))
            for row in events
            if row["number"] is not None and not positions.is_known(row["lane"], row["number"])
        ]

    @property
    def has_peers(self) -> bool:
        return time.monotonic() >= self._alone_until

    def mark_applied(self, events: Iterable[PeerEvent]) -> None:
        for event in events:
            self._positions.note(event.lane, event.number)
        self._alone_until, self._alone_once_applied = self._alone_once_applied, 0.0

    def note_published(self, event: tuple[int, int] | None) -> None:
        """Record the lane and number of an event that this server has committed, if any."""
        if event is not None:
            self._last_published = event
            self._positions.note(*event)

    async def write_and_publish(
        self, work: Callable[[asyncpg.Connection], Awaitable[tuple[T, CommitEffects]]]
    ) -> T:
        """Run ``work`` in a transaction between two commits, and publish its effects with it.

        The lane is locked first, as commits do: a commit that waited for the lane after reading
        would have read an older state, and another order would deadlock.
        """
        lane = self._session.lane

        async def transaction(connection: asyncpg.Connection) -> tuple[T, tuple[int, int] | None]:
            await lane.lock(connection)
            result, effects = await work(connection)
            return result, await publish(connection, lane, effects)

        try:
            result, event = await (await self._session.connections()).commit(transaction)
        except OutcomeUnknown:
            lane.doubt()
            raise
        self.note_published(event)
        await lane.announce()
        return result

    async def _delete_old_events(self) -> None:
        """Delete the events that this server published more than a minute ago, now and then."""
        now, marks = time.monotonic(), self._marks
        if not marks or now - marks[-1][0] >= _FORGET_SECONDS:
            marks.append((now, *self._last_published))
        if now - marks[0][0] < KEEP_SECONDS + _FORGET_SECONDS:
            return
        while len(marks) > 1 and now - marks[1][0] >= KEEP_SECONDS:
            marks.popleft()
        _, lane, number = marks.popleft()

        async def work(connection: asyncpg.Connection) -> None:
            await connection.execute(QUERIES["forget_peer_events"], lane, number)

        await self._session.write(work)


async def publish(
    connection: asyncpg.Connection, lane: Lane, effects: CommitEffects
) -> tuple[int, int] | None:
    """Add an event to the transaction, unless there are no effects.

    Returns its lane and number, for ``note_published`` after the commit.
    """
    if effects == _NOTHING:
        return None
    content = encode(effects)
    number: int | None = await connection.fetchval(
        QUERIES["publish_event"], lane.number, lane.owner, content
    )
    if number is None:
        await lane.take(connection)
        number = await connection.fetchval(
            QUERIES["publish_event"], lane.number, lane.owner, content
        )
    await lane.renew(connection)
    return None if number is None else (lane.number, number)


_NOTHING = CommitEffects()


def effects_of(
    changes: Sequence[Change],
    outcomes: Sequence[Outcome],
    segments: Sequence[Segment],
    spaces: Iterable[str],
) -> CommitEffects:
    """What the applied changes of a commit did, as peers need to know it."""
    return CommitEffects(
        appended=_appended(segments),
        consumers=_consumers(changes, outcomes),
        spaces=tuple(sorted(set(spaces))),
        dead_letters=_dead_letters(changes, outcomes),
    )


def _dead_letters(changes: Sequence[Change], outcomes: Sequence[Outcome]) -> tuple[int, ...]:
    queues: set[int] = set()
    for change, outcome in zip(changes, outcomes, strict=True):
        if isinstance(outcome, Applied) and not outcome.repeated:
            queues.update(letter.queue for letter in change.dead_letters)
            queues.update(removal.queue for removal in change.removals)
    return tuple(queues)


def _appended(segments: Sequence[Segment]) -> tuple[PartitionAppended, ...]:
    ends = {segment.partition: segment for segment in segments}
    return tuple(
        [
            PartitionAppended(number, last.end, last.created_at, last.start)
            for number, last in ends.items()
        ]
    )


def _consumers(
    changes: Sequence[Change], outcomes: Sequence[Outcome]
) -> tuple[ConsumerUpdated, ...]:
    updated = {
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
    return tuple(updated.values())
