"""The store protocol over PostgreSQL."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

import asyncpg

from skep.errors import Invalid, OutcomeUnknown
from skep.model.change import Applied, Change, Commit
from skep.store.clock import Clock
from skep.store.commit.evaluation import evaluate
from skep.store.postgres.bulk_load import MovingRows
from skep.store.postgres.commit.fast_path import Recent, write_at_once
from skep.store.postgres.commit.read import look
from skep.store.postgres.commit.write import write
from skep.store.postgres.outbox import OutboxRows
from skep.store.postgres.peer_feed import encode, happened_in, tell
from skep.store.postgres.sql import QUERIES
from skep.store.protocol import StoreStats


class PostgresStore(MovingRows, OutboxRows):
    """One database, several servers, a lane for each."""

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        super().__init__(url, clock=clock)
        self._recent = Recent()

    async def commit(self, changes: Sequence[Change]) -> Commit:
        if not changes:
            return Commit([], [])
        database = await self._db()
        try:
            done, told = await database.commit(
                partial(self._commit, changes), at_once=partial(self._commit_at_once, changes)
            )
        except BaseException as error:
            self._recent.forget()
            if isinstance(error, OutcomeUnknown):
                self._lane.doubt()
            raise
        self._note_told(told)
        self.lane = self._lane.number
        await self._lane.announce()
        return done

    async def _commit_at_once(
        self, changes: Sequence[Change], connection: asyncpg.Connection
    ) -> tuple[Commit, tuple[int, int] | None] | None:
        """Commit by memory and in one statement; None, and nothing, if that cannot be."""
        known = None if self._lane.is_due else self._recent.known(changes)
        if known is None:
            return None
        now = self.clock.now()
        lane = self._lane.number
        round_, outcomes = evaluate(known, changes, lane=lane, now=now)
        if not all(isinstance(outcome, Applied) for outcome in outcomes):
            # What memory refuses the database may know better.
            return None
        segments = round_.segments()
        told = encode(happened_in(changes, outcomes, segments, ()))
        number = await write_at_once(connection, round_, segments, known, self._lane, told)
        if number is None:
            self._recent.forget()
            return None
        self._recent.learn(round_, known.subscriptions)
        return Commit(outcomes, segments), (lane, number)

    async def _commit(
        self, changes: Sequence[Change], connection: asyncpg.Connection
    ) -> tuple[Commit, tuple[int, int] | None]:
        asked_at = self._told.steady()
        known = await look(connection, changes, self._lane)
        now = self._time(known.now, asked_at)
        lane = self._lane.number
        round_, outcomes = evaluate(known, changes, lane=lane, now=now)
        segments = round_.segments()
        await write(connection, round_, segments, known)
        spaces = [space for space, _ in round_.entries]
        happened = happened_in(changes, outcomes, segments, spaces)
        told = await tell(connection, self._lane, happened)
        if told is None and not known.needs.partitions and Applied in map(type, outcomes):
            await self._wait_for_standby(connection)
        # If it is not committed in the end, all of it is forgotten.
        self._recent.learn(round_, known.subscriptions)
        return Commit(outcomes, segments), told

    async def _wait_for_standby(self, connection: asyncpg.Connection) -> None:
        """Let COMMIT wait for the synchronous standby, if there is one, though nothing was written.

        What it has read may be at the primary only. A lock on the row of the lane is a write. While
        a commit before it waits for the standby, it gets no lock, and leaves no connection behind.
        """
        if await connection.fetchval(QUERIES["has_synchronous_standby"]):
            await self._lane.lock(connection)

    async def accept_history(self, history: str) -> None:
        self._recent.forget()
        await super().accept_history(history)

    async def stats(self) -> StoreStats:
        (found,) = await (await self._db()).fetch_all("statistics")
        return StoreStats(str(found[0]), found[1], found[2])

    async def backup(self, path: Path) -> NoReturn:
        raise Invalid("path", "PostgreSQL is backed up with pg_dump or pg_basebackup")
