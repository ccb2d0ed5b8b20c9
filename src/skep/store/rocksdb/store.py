"""The store protocol over RocksDB."""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from skep.errors import StoreStalled
from skep.model.change import Change, Commit
from skep.store.clock import Clock
from skep.store.commit.evaluation import evaluate
from skep.store.protocol import Gauge, StoreStats
from skep.store.rocksdb.bulk_load import RocksBulkLoader
from skep.store.rocksdb.context import RocksContext
from skep.store.rocksdb.purge import RocksPurger
from skep.store.rocksdb.tables import RocksCommitView, RocksTables
from skep.store.single_server import LANE, SingleServer


class RocksStore:
    """One directory, one process, one lane.

    It commits; every other method is one of a table, which ``__init__`` names.
    """

    shared = False
    lane = LANE
    timeline = ""
    has_peers = False

    def __init__(self, path: Path, *, clock: Clock | None = None) -> None:
        context = self._context = RocksContext(path, clock=clock)
        self._db = context.db
        self.clock = context.clock
        try:
            tables = self._tables = RocksTables(context)
            self._db.refuse_stalls()
        except BaseException:
            self._db.close()
            raise
        self._view = RocksCommitView(context, tables)

        catalogue = tables.catalogue
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

        self.read = tables.log.read
        self.find_offset = tables.log.find_offset
        self.offset_at = tables.log.offset_at
        self.heads = tables.log.heads
        self.read_journal = tables.log.read_journal
        self.read_places = tables.log.read_places

        self.truncate = tables.retention.truncate
        self.delete_message = tables.retention.delete_message
        self.removals = tables.retention.removals
        self.record_removal = tables.retention.record_removal
        self.forget_removals = tables.retention.forget_removals
        self.purge = RocksPurger(context).purge

        self.dead_letters = tables.dead_letters.dead_letters
        self.count_dead_letters = tables.dead_letters.count_dead_letters
        self.find_dead_letter = tables.dead_letters.find_dead_letter
        self.given_up = tables.dead_letters.given_up

        self.find_trace = tables.traces.find_trace
        self.trace_events = tables.traces.trace_events
        self.named_events = tables.traces.named_events
        self.trace_names = tables.traces.trace_names

        self.find_outcome = tables.idempotency.find_outcome
        self.forget_outcomes = tables.idempotency.forget_outcomes
        self.find_entries = tables.entries.find_entries
        self.list_entries = tables.entries.list_entries

        single = SingleServer()
        self.accept_timeline = single.accept_timeline
        self.start_peer_events = single.start_peer_events
        self.peer_events = single.peer_events
        self.mark_applied = single.mark_applied
        self.acquire_leadership = single.acquire_leadership
        self.outbox_rows = single.outbox_rows
        self.reject_outbox_row = single.reject_outbox_row

        loader = RocksBulkLoader(context, tables)
        self.load = loader.load
        self.others = loader.others
        self.last_number = loader.last_number
        self.locate = loader.locate
        self.all_events = loader.all_events
        self.all_entries = loader.all_entries
        self.all_outcomes = loader.all_outcomes

    async def commit(self, changes: Sequence[Change]) -> Commit:
        try:
            commit, is_written = self._apply(changes)
        except StoreStalled:
            apply = partial(self._apply, changes)
            commit, is_written = await self._context.retry_after_stall(apply)
        if is_written:
            await self._db.sync()
        return commit

    def _apply(self, changes: Sequence[Change]) -> tuple[Commit, bool]:
        self._db.check()
        round_, outcomes = evaluate(self._view, changes, lane=self.lane, now=self.clock.now())
        segments, partitions = round_.segments(), round_.partitions()
        batch = self._tables.batch_of(round_, segments, partitions)
        if batch.is_empty():
            return Commit(outcomes, segments), False
        self._context.write(batch)
        self._tables.catalogue.remember(partitions)
        return Commit(outcomes, segments), True

    @property
    def failure(self) -> str | None:
        return self._db.failure

    def gauges(self) -> Sequence[Gauge]:
        return self._db.gauges()

    async def stats(self) -> StoreStats:
        letters = self._tables.dead_letters.count()
        return StoreStats(self._context.store_id, self._db.bytes_on_disk(), letters)

    async def backup(self, path: Path) -> None:
        await asyncio.to_thread(self._db.checkpoint, path)

    async def close(self) -> None:
        self._db.close()
