"""Builds every part of a broker once, in order. The only module that imports all packages."""

from dataclasses import dataclass
from random import Random

from skep.core.admin.dead_letter import DeadLetters
from skep.core.admin.deletion import Remover
from skep.core.admin.give_up import ManualGiveUp
from skep.core.admin.group import Groups
from skep.core.admin.maintenance import Maintenance
from skep.core.admin.message import Messages
from skep.core.admin.pipeline_run import Pipelines
from skep.core.admin.queue import Queues
from skep.core.admin.trace import Traces
from skep.core.cluster.maintenance_mode import MaintenanceMode
from skep.core.cluster.peer_sync import PeerSync
from skep.core.consume.delivery import DeliveryBuilder
from skep.core.consume.eviction import Evictor
from skep.core.consume.held_messages import HeldMessages
from skep.core.consume.partition_lease import PartitionLeaser
from skep.core.consume.pop import Popper
from skep.core.consume.settlement import Settler
from skep.core.consume.subscription import Subscriptions
from skep.core.insight.insight import Insight
from skep.core.journal.journal import Journal
from skep.core.journal.reader_group import ReaderGroups
from skep.core.journal.scan import JournalScan
from skep.core.limits import Limits
from skep.core.log.committer import Committer
from skep.core.log.encryption import KeyRing
from skep.core.log.segment_reader import SegmentReader
from skep.core.metrics.commit_meter import CommitMeter
from skep.core.metrics.latency_history import LatencyHistory
from skep.core.produce.capacity import FillLevel
from skep.core.produce.outbox import Outbox
from skep.core.produce.push import Pusher
from skep.core.sink.publisher import Publisher
from skep.core.sink.sink import Sink
from skep.core.state.catalogue import Catalogue
from skep.core.state.totals_updater import TotalsUpdater
from skep.core.sweeper import Sweeper
from skep.core.transaction.stream_query import StreamQueries
from skep.core.transaction.transaction import Transactor
from skep.store.protocol import Store


@dataclass(frozen=True, slots=True)
class Parts:
    """What a broker consists of."""

    catalogue: Catalogue
    committer: Committer
    peer_sync: PeerSync
    pusher: Pusher
    popper: Popper
    transactor: Transactor
    queues: Queues
    groups: Groups
    messages: Messages
    dead_letters: DeadLetters
    traces: Traces
    pipelines: Pipelines
    maintenance: Maintenance
    held_messages: HeldMessages
    stream_queries: StreamQueries
    journal: Journal
    reader_groups: ReaderGroups
    sink: Sink
    insight: Insight
    outbox: Outbox
    sweeper: Sweeper
    remover: Remover
    totals_updater: TotalsUpdater
    latencies: LatencyHistory


def build_parts(store: Store, keys: KeyRing, limits: Limits, random: Random) -> Parts:
    catalogue = Catalogue(store, cache_bytes=limits.cache_bytes)
    meter = CommitMeter(store.clock, catalogue)
    peer_sync = PeerSync(store, catalogue, meter.forget_dead_letters)
    committer = Committer(
        store,
        # In this order: what a commit did is counted against the state before it.
        [meter.count, catalogue.apply],
        peer_sync.explain,
        capacity=limits.pending_bytes,
    )
    segment_reader = SegmentReader(store, catalogue, keys)
    mode = MaintenanceMode(store, peer_sync)
    level = FillLevel(store, peer_sync)
    totals_updater = TotalsUpdater(store.clock, catalogue)
    latencies = LatencyHistory(store, committer, meter.latencies)

    pusher = Pusher(store, catalogue, peer_sync, committer, mode, level, keys)
    evictor = Evictor(store, catalogue, committer, segment_reader)
    leaser = PartitionLeaser(store.clock, catalogue, segment_reader)
    delivery_builder = DeliveryBuilder(
        store.clock, catalogue, committer, leaser, evictor, mode, limits
    )
    subscriptions = Subscriptions(store, catalogue, peer_sync)
    popper = Popper(store, catalogue, peer_sync, subscriptions, delivery_builder)
    settler = Settler(store, catalogue, random)
    transactor = Transactor(store, committer, peer_sync, pusher, settler, mode, limits)
    held_messages = HeldMessages(store, catalogue, peer_sync, segment_reader)

    queues = Queues(store, catalogue, peer_sync, committer)
    groups = Groups(store, catalogue, committer, peer_sync, subscriptions, totals_updater)
    give_up = ManualGiveUp(store.clock, catalogue, committer, peer_sync, segment_reader)
    messages = Messages(store, catalogue, peer_sync, segment_reader, give_up, limits)
    dead_letters = DeadLetters(
        store, catalogue, peer_sync, committer, segment_reader, mode, keys, limits
    )
    traces = Traces(store, catalogue, peer_sync, committer, messages, segment_reader, limits)
    maintenance = Maintenance(
        catalogue, peer_sync, committer, mode, level, pusher, transactor, popper, limits
    )

    scan = JournalScan(store, catalogue, peer_sync, segment_reader)
    journal = Journal(store, catalogue, peer_sync, scan)
    reader_groups = ReaderGroups(store, journal, committer)
    publisher = Publisher(store, catalogue, peer_sync, committer, level, keys, limits)
    sink = Sink(store, catalogue, peer_sync, committer, mode, publisher, limits)
    insight = Insight(
        store,
        catalogue,
        peer_sync,
        committer,
        totals_updater,
        meter,
        segment_reader,
        dead_letters,
        traces,
        reader_groups,
        latencies,
        limits,
    )
    return Parts(
        catalogue=catalogue,
        committer=committer,
        peer_sync=peer_sync,
        pusher=pusher,
        popper=popper,
        transactor=transactor,
        queues=queues,
        groups=groups,
        messages=messages,
        dead_letters=dead_letters,
        traces=traces,
        pipelines=Pipelines(store, committer),
        maintenance=maintenance,
        held_messages=held_messages,
        stream_queries=StreamQueries(store, committer, transactor, held_messages),
        journal=journal,
        reader_groups=reader_groups,
        sink=sink,
        insight=insight,
        outbox=Outbox(store, pusher, mode, limits),
        sweeper=Sweeper(
            store, catalogue, peer_sync, queues, evictor, sink, reader_groups, latencies
        ),
        remover=Remover(store),
        totals_updater=totals_updater,
        latencies=latencies,
    )
