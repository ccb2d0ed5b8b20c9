"""The tables of one database, and the view of them that a commit is evaluated against."""

from rocksdict import WriteBatch

from skep.model.queue import Partition
from skep.model.segment import Segment
from skep.store.commit.evaluation import CommitRound
from skep.store.rocksdb.catalogue import RocksCatalogueTable, put_partition
from skep.store.rocksdb.context import RocksContext
from skep.store.rocksdb.dead_letter import RocksDeadLetterTable
from skep.store.rocksdb.entry import RocksEntryTable
from skep.store.rocksdb.idempotency import RocksIdempotencyTable
from skep.store.rocksdb.log import RocksLogTable
from skep.store.rocksdb.retention import RocksRetentionTable
from skep.store.rocksdb.trace import RocksTraceTable
from skep.store.single_server import SingleServer


class RocksTables:
    def __init__(self, context: RocksContext) -> None:
        self.catalogue = RocksCatalogueTable(context)
        self.log = RocksLogTable(context, self.catalogue)
        self.dead_letters = RocksDeadLetterTable(context)
        self.traces = RocksTraceTable(context)
        self.entries = RocksEntryTable(context)
        self.idempotency = RocksIdempotencyTable(context)
        self.retention = RocksRetentionTable(context, self.catalogue, self.log, self.traces)

    def batch_of(
        self, round_: CommitRound, segments: list[Segment], partitions: list[Partition]
    ) -> WriteBatch:
        """Everything that a round writes; empty if nothing was applied."""
        batch = WriteBatch(raw_mode=True)
        if segments:
            self.log.put_appends(batch, round_, segments)
        for partition in partitions:
            put_partition(batch, partition)
        # Most commits are pushes, pops or acks: they pay for no other table.
        if round_.consumers:
            self.catalogue.put_consumers(batch, round_)
        if round_.removed or round_.dead_letters:
            self.dead_letters.put_dead_letters(batch, round_)
        if round_.recorded:
            self.idempotency.put_outcomes(batch, round_.recorded)
        if round_.traces:
            self.traces.put_events(batch, round_.traces)
        if round_.entries:
            self.entries.put_entries(batch, round_)
        return batch


class RocksCommitView:
    """What is stored, as ``CommitView`` wants it: the point reads of the tables."""

    def __init__(self, context: RocksContext, tables: RocksTables) -> None:
        self.queue_version = tables.catalogue.queue_version
        self.partition = tables.catalogue.partition
        self.subscription = tables.catalogue.subscription
        self.consumer = tables.catalogue.consumer
        self.find_offsets = tables.log.find_offsets
        self.segment = tables.log.segment
        self.head = tables.log.head
        self.pushed = tables.log.pushed
        self.dead_letter = tables.dead_letters.dead_letter
        self.letter_of = tables.dead_letters.letter_of
        self.recorded = tables.idempotency.recorded
        self.entry_version = tables.entries.entry_version
        self.is_enqueued = SingleServer().is_enqueued
        self.next_number = context.next_number
