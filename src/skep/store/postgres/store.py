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
from skep.store.postgres.bulk_load import PostgresBulkLoader
from skep.store.postgres.catalogue import PostgresCatalogueTable
from skep.store.postgres.commit.fast_path import RecentStates, write_at_once
from skep.store.postgres.commit.read import read_snapshot
from skep.store.postgres.commit.write import write
from skep.store.postgres.dead_letter import PostgresDeadLetterTable
from skep.store.postgres.entry import PostgresEntryTable
from skep.store.postgres.idempotency import PostgresIdempotencyTable
from skep.store.postgres.leader import LeaderTable
from skep.store.postgres.log import PostgresLogTable
from skep.store.postgres.outbox import OutboxTable
from skep.store.postgres.peer_feed import PeerFeed, effects_of, encode, publish
from skep.store.postgres.purge import PostgresPurger
from skep.store.postgres.retention import PostgresRetentionTable
from skep.store.postgres.session import PostgresSession
from skep.store.postgres.sql import QUERIES
from skep.store.postgres.trace import PostgresTraceTable
from skep.store.protocol import Gauge, StoreStats


class PostgresStore:
    """One database, several servers, a lane for each.

    It commits; every other method is one of a table, which ``__init__`` names.
    """

    shared = True
    failure: str | None = None

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        session = self._session = PostgresSession(url, clock=clock)
        feed = self._feed = PeerFeed(session)
        self._recent = RecentStates()
        self.clock = session.clock
        self.close = session.close

        catalogue = PostgresCatalogueTable(session, feed)
        self.put_queue = catalogue.put_queue
        self.delete_queue = catalogue.delete_queue
        self.create_partitions = catalogue.create_partitions
        self.queues = catalogue.queues
        self.queue = catalogue.queue
        self.partitions = catalogue.partitions
        self.find_partitions = catalogue.find_partitions
        self.consumers = catalogue.consumers
        self.group_states = catalogue.group_states
        self.subscriptions = catalogue.subscriptions
        self.subscribe = catalogue.subscribe
        self.delete_group = catalogue.delete_group

        log = PostgresLogTable(session)
        self.read = log.read
        self.find_offset = log.find_offset
        self.offset_at = log.offset_at
        self.heads = log.heads
        self.read_journal = log.read_journal
        self.read_places = log.read_places

        retention = PostgresRetentionTable(session, feed)
        self.truncate = retention.truncate
        self.delete_message = retention.delete_message
        self.removals = retention.removals
        self.record_removal = retention.record_removal
        self.forget_removals = retention.forget_removals
        self._purger = PostgresPurger(session)
        self.purge = self._purger.purge

        dead_letters = PostgresDeadLetterTable(session)
        self.dead_letters = dead_letters.dead_letters
        self.count_dead_letters = dead_letters.count_dead_letters
        self.find_dead_letter = dead_letters.find_dead_letter
        self.given_up = dead_letters.given_up

        traces = PostgresTraceTable(session)
        self.find_trace = traces.find_trace
        self.trace_events = traces.trace_events
        self.named_events = traces.named_events
        self.trace_names = traces.trace_names

        idempotency = PostgresIdempotencyTable(session)
        self.find_outcome = idempotency.find_outcome
        self.forget_outcomes = idempotency.forget_outcomes

        entries = PostgresEntryTable(session)
        self.find_entries = entries.find_entries
        self.list_entries = entries.list_entries

        self.start_peer_events = feed.start_peer_events
        self.peer_events = feed.peer_events
        self.mark_applied = feed.mark_applied
        self.acquire_leadership = LeaderTable(session).acquire_leadership

        outbox = OutboxTable(session)
        self.outbox_rows = outbox.outbox_rows
        self.reject_outbox_row = outbox.reject_outbox_row

        loader = PostgresBulkLoader(session, feed)
        self.load = loader.load
        self.others = loader.others
        self.last_number = loader.last_number
        self.locate = loader.locate
        self.all_events = loader.all_events
        self.all_entries = loader.all_entries
        self.all_outcomes = loader.all_outcomes

    @property
    def lane(self) -> int:
        return self._session.lane.number

    @property
    def has_peers(self) -> bool:
        return self._feed.has_peers

    @property
    def timeline(self) -> str:
        return self._session.timeline

    async def accept_timeline(self, timeline: str) -> None:
        self._recent.forget()
        await self._session.accept_timeline(timeline)

    async def commit(self, changes: Sequence[Change]) -> Commit:
        if not changes:
            return Commit([], [])
        connections, lane = await self._session.connections(), self._session.lane
        try:
            commit, event = await connections.commit(
                partial(self._commit, changes), at_once=partial(self._commit_at_once, changes)
            )
        except BaseException as error:
            self._recent.forget()
            if isinstance(error, OutcomeUnknown):
                lane.doubt()
            raise
        self._feed.note_published(event)
        await lane.announce()
        return commit

    async def _commit_at_once(
        self, changes: Sequence[Change], connection: asyncpg.Connection
    ) -> tuple[Commit, tuple[int, int] | None] | None:
        """Commit in one statement, evaluated against recent states.

        None if that is not possible; then nothing was written.
        """
        lane = self._session.lane
        recent = None if lane.is_due else self._recent.snapshot(changes)
        if recent is None:
            return None
        number = lane.number
        round_, outcomes = evaluate(recent, changes, lane=number, now=self.clock.now())
        if not all(isinstance(outcome, Applied) for outcome in outcomes):
            # The recent states may be outdated: only the database may reject a change.
            return None
        segments = round_.segments()
        effects = encode(effects_of(changes, outcomes, segments, ()))
        event = await write_at_once(connection, round_, segments, recent, lane, effects)
        if event is None:
            self._recent.forget()
            return None
        self._recent.keep(round_, recent.subscriptions)
        return Commit(outcomes, segments), (number, event)

    async def _commit(
        self, changes: Sequence[Change], connection: asyncpg.Connection
    ) -> tuple[Commit, tuple[int, int] | None]:
        session, lane = self._session, self._session.lane
        asked_at = session.database_clock.steady()
        snapshot = await read_snapshot(connection, changes, lane)
        now = session.commit_time(snapshot.now, asked_at)
        round_, outcomes = evaluate(snapshot, changes, lane=lane.number, now=now)
        segments = round_.segments()
        await write(connection, round_, segments, snapshot)
        spaces = [space for space, _ in round_.entries]
        effects = effects_of(changes, outcomes, segments, spaces)
        event = await publish(connection, lane, effects)
        if event is None and not snapshot.needs.partitions and Applied in map(type, outcomes):
            await self._wait_for_standby(connection)
        # If the transaction fails, ``commit`` forgets all recent states.
        self._recent.keep(round_, snapshot.subscriptions)
        return Commit(outcomes, segments), event

    async def _wait_for_standby(self, connection: asyncpg.Connection) -> None:
        """Make COMMIT wait for the synchronous standby, if any, though nothing was written.

        What the transaction has read may exist on the primary only. A lock on the row of the lane
        counts as a write. While an earlier commit waits for the standby, the lock is not granted,
        and no connection is left behind.
        """
        if await connection.fetchval(QUERIES["has_synchronous_standby"]):
            await self._session.lane.lock(connection)

    async def stats(self) -> StoreStats:
        (row,) = await self._session.fetch_all("statistics")
        return StoreStats(str(row["id"]), row["bytes_on_disk"], row["dead_letters"])

    def gauges(self) -> Sequence[Gauge]:
        return ()

    async def backup(self, path: Path) -> NoReturn:
        raise Invalid("path", "PostgreSQL is backed up with pg_dump or pg_basebackup")
