"""Reads and writes rows of a copy between stores, in RocksDB."""

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice

from rocksdict import WriteBatch

from skep.errors import StoreStalled
from skep.model.entry import Entry
from skep.model.name import Offset
from skep.model.trace import TraceEvent
from skep.store.bulk_load import BulkLoad, StoredOutcome
from skep.store.commit.evaluation import RecordedOutcome
from skep.store.rocksdb import keys
from skep.store.rocksdb.catalogue import GroupRecord, put_partition
from skep.store.rocksdb.context import RocksContext
from skep.store.rocksdb.record_codec import Decoder, encode
from skep.store.rocksdb.tables import RocksTables

_event = Decoder(TraceEvent)
_entry = Decoder(Entry)
_recorded = Decoder(RecordedOutcome)


class RocksBulkLoader:
    def __init__(self, context: RocksContext, tables: RocksTables) -> None:
        self._context = context
        self._db = context.db
        self._tables = tables

    async def load(self, load: BulkLoad) -> None:
        try:
            self._load_all(load)
        except StoreStalled:
            load_again = partial(self._load_all, load)
            await self._context.retry_after_stall(load_again, patience=math.inf)
        await self._db.sync()

    def _load_all(self, load: BulkLoad) -> None:
        self._context.reserve_numbers(load.reserved)
        batch = WriteBatch(raw_mode=True)
        self._load_log(batch, load)
        self._load_groups(batch, load)
        self._tables.dead_letters.load(batch, load.dead_letters)
        self._tables.traces.put_events(batch, load.events)
        self._load_rest(batch, load)
        self._context.write(batch)
        catalogue = self._tables.catalogue
        catalogue.remember(load.partitions)
        for queue in load.queues:
            catalogue.keep_queue(queue)
        for subscription in load.subscriptions:
            catalogue.keep_group(GroupRecord(subscription, subscription.group))

    async def others(self) -> int:
        return 0  # the lock of the directory excludes them

    async def last_number(self) -> int:
        return self._context.last_number

    async def locate(self, partition: int, chosen: Sequence[str]) -> list[Offset | None]:
        return self._tables.log.find_offsets(partition, chosen)

    async def all_events(
        self, queue: int, *, after: tuple[int, Offset, int], limit: int
    ) -> list[TraceEvent]:
        found = self._db.scan(keys.event_key(*after) + b"\x00", b"f")
        events = (_event(value) for _, value in found)
        return list(islice(self._events_of(queue, events), limit))

    async def all_entries(self, *, after: tuple[str, str], limit: int) -> list[Entry]:
        found = self._db.scan(keys.entry_key(*after) + b"\x00", b"t")
        return [_entry(value) for _, value in islice(found, limit)]

    async def all_outcomes(self, *, after: str, limit: int) -> list[StoredOutcome]:
        found = islice(self._db.scan(keys.outcome_key(after) + b"\x00", b"l"), limit)
        named = ((key[1:].decode(), _recorded(value)) for key, value in found)
        return [
            StoredOutcome(name, each.fingerprint, each.outcome, each.created_at)
            for name, each in named
        ]

    def _events_of(self, queue: int, events: Iterable[TraceEvent]) -> Iterator[TraceEvent]:
        last, belongs = -1, False
        for event in events:
            if event.partition != last:
                last = event.partition
                belongs = self._tables.catalogue.partition(queue, last) is not None
            if belongs:
                yield event

    def _load_log(self, batch: WriteBatch, load: BulkLoad) -> None:
        for queue in load.queues:
            batch.put(keys.queue_key(queue.number), encode(queue))
        for partition in load.partitions:
            put_partition(batch, partition)
            name = keys.name_key(partition.queue, partition.name)
            batch.put(name, keys.pack(partition.number))
        for segment in load.segments:
            self._tables.log.put_segment(batch, segment)
        for number, chosen, offset in load.ids:
            batch.put(keys.transaction_key(number, chosen), keys.pack(offset))
        for place, position in load.heads.items():
            batch.put(keys.head_key(*place), keys.pack(position))

    def _load_groups(self, batch: WriteBatch, load: BulkLoad) -> None:
        for subscription in load.subscriptions:
            place = keys.subscription_key(subscription.queue, subscription.group)
            batch.put(place, encode(subscription))
        for subscription, (partition, group, state) in load.consumers:
            batch.put(keys.consumer_key(subscription.queue, partition, group), encode(state))

    def _load_rest(self, batch: WriteBatch, load: BulkLoad) -> None:
        for number, removal in load.removals:
            batch.put(keys.removal_key(removal.queue, number), encode(removal))
        idempotency = self._tables.idempotency
        new_outcomes = {
            name: RecordedOutcome(fingerprint, outcome, created_at)
            for name, fingerprint, outcome, created_at in load.outcomes
            if idempotency.recorded(name) is None
        }
        idempotency.put_outcomes(batch, new_outcomes)
        for entry in load.entries:
            place = keys.entry_key(entry.space, entry.key)
            if self._db.get(place) is None:
                batch.put(place, encode(entry))
        for mark in load.marks:
            batch.put(keys.entry_key(mark.space, mark.key), encode(mark))
