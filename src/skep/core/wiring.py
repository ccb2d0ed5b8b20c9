"""Builds every part of a broker once, in order. The only module that imports all packages."""

from dataclasses import dataclass
from random import Random

from skep.core.admin.buffer_delivery import BufferDelivery
from skep.core.admin.cursor_move import CursorMover
from skep.core.admin.dead_letter import DeadLetters
from skep.core.admin.dead_letter_replay import DeadLetterReplayer
from skep.core.admin.deletion import Remover
from skep.core.admin.expiry import MessageExpiry
from skep.core.admin.give_up import ManualGiveUp
from skep.core.admin.group import Groups
from skep.core.admin.maintenance import Maintenance
from skep.core.admin.message import Messages
from skep.core.admin.pipeline_run import Pipelines
from skep.core.admin.push_buffer import PushBuffer
from skep.core.admin.queue import Queues
from skep.core.admin.trace import Traces
from skep.core.cluster.maintenance_mode import MaintenanceMode
from skep.core.cluster.peer_sync import PeerSync
from skep.core.cluster.state_reloader import StateReloader
from skep.core.consume.delivery import DeliveryBuilder
from skep.core.consume.eviction import Evictor
from skep.core.consume.held_messages import HeldMessages
from skep.core.consume.lease_commit import LeaseCommitter
from skep.core.consume.partition_lease import PartitionLeaser
from skep.core.consume.partition_picker import PartitionPicker
from skep.core.consume.pop import Popper
from skep.core.consume.settlement import Settler
from skep.core.consume.settlement_builder import SettlementBuilder
from skep.core.consume.subscription import Subscriptions
from skep.core.insight.dead_letter_browser import DeadLetterBrowser
from skep.core.insight.dead_letter_count import DeadLetterCounter
from skep.core.insight.exact_lag import ExactLagReader
from skep.core.insight.group_lag import GroupLagReader
from skep.core.insight.health import StoreHealth
from skep.core.insight.insight import Insight
from skep.core.insight.message_browser import MessageBrowser
from skep.core.insight.message_inspector import MessageInspector
from skep.core.insight.queue_backlog import QueueBacklogReader
from skep.core.insight.queue_summary import QueueSummaryReader
from skep.core.insight.trace_search import TraceSearch
from skep.core.journal.journal import Journal
from skep.core.journal.reader_group import ReaderGroups
from skep.core.journal.scan import JournalScan
from skep.core.limits import Limits
from skep.core.log.committer import Committer
from skep.core.log.encryption import KeyRing
from skep.core.log.segment_reader import SegmentReader
from skep.core.metrics.commit_meter import CommitMeter
from skep.core.metrics.latency_history import LatencyHistory
from skep.core.produce.append_builder import AppendBuilder
from skep.core.produce.capacity import FillLevel
from skep.core.produce.outbox import Outbox
from skep.core.produce.push import Pusher
from skep.core.produce.push_preparation import PushPreparer
from skep.core.sink.admission import Admission
from skep.core.sink.publication import PublicationBuilder
from skep.core.sink.publisher import Publisher
from skep.core.sink.row_encoder import RowEncoder
from skep.core.sink.sink import Sink
from skep.core.sink.staged_bytes import StagedBytes
from skep.core.sink.stager import Stager
from skep.core.sink.staging_area import StagingArea
from skep.core.sink.version_commit import VersionCommitter
from skep.core.state.catalogue import Catalogue
from skep.core.state.lease_table import LeaseTable
from skep.core.state.quota import Quotas
from skep.core.state.registry import Registry
from skep.core.state.segment_cache import SegmentCache
from skep.core.state.state_loader import StateLoader
from skep.core.state.totals_updater import TotalsUpdater
from skep.core.state.waiters import Waiters
from skep.core.sweeper import Sweeper
from skep.core.transaction.request import TransactionValidator
from skep.core.transaction.stream_query import StreamQueries
from skep.core.transaction.transaction import Transactor
from skep.store.protocol import Store


@dataclass(frozen=True, slots=True)
class Parts:
    """What a broker consists of."""

    registry: Registry
    loader: StateLoader
    waiters: Waiters
    catalogue: Catalogue
    committer: Committer
    peer_sync: PeerSync
    pusher: Pusher
    popper: Popper
    settler: Settler
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
    cache = SegmentCache(limits.cache_bytes)
    lease_table = LeaseTable(store.clock)
    waiters = Waiters(store.clock)
    registry = Registry(store.clock, cache, lease_table, waiters)
    quotas = Quotas(registry.queues)
    loader = StateLoader(store, registry, lease_table, cache)
    catalogue = Catalogue(store, registry, loader, quotas)
    totals_updater = TotalsUpdater(store.clock, registry)

    meter = CommitMeter(store.clock, registry, lease_table)
    peer_sync = PeerSync(
        store,
        registry,
        loader,
        lease_table,
        cache,
        StateReloader(store, registry, loader),
        meter.forget_dead_letters,
    )
    committer = Committer(
        store,
        # In this order: what a commit did is counted against the state before it.
        [meter.count, registry.apply],
        peer_sync.explain,
        capacity=limits.pending_bytes,
    )
    latencies = LatencyHistory(store, committer, meter.latencies)
    reader = SegmentReader(store, registry, cache, keys)
    mode = MaintenanceMode(store, peer_sync)
    level = FillLevel(store, peer_sync)

    append_builder = AppendBuilder(keys)
    preparer = PushPreparer(store, catalogue, registry, quotas, peer_sync, level, append_builder)
    pusher = Pusher(registry, committer, mode, preparer, append_builder)
    evictor = Evictor(store, registry, committer, reader)
    delivery_builder = DeliveryBuilder(
        PartitionPicker(registry.scheduler, loader),
        PartitionLeaser(store.clock, registry, evictor, reader),
        LeaseCommitter(committer, lease_table),
        mode,
        limits,
    )
    subscriptions = Subscriptions(store, catalogue, quotas, peer_sync)
    popper = Popper(store, registry, loader, waiters, peer_sync, subscriptions, delivery_builder)
    settlement_builder = SettlementBuilder(store, loader, lease_table, random)
    settler = Settler(committer, peer_sync, settlement_builder)
    transactor = Transactor(
        store, committer, preparer, settler, settlement_builder, mode, TransactionValidator(limits)
    )
    held_messages = HeldMessages(store, registry, lease_table, peer_sync, reader)

    queues = Queues(store, catalogue, registry, quotas, peer_sync, committer)
    groups = Groups(
        store.clock,
        registry,
        peer_sync,
        subscriptions,
        totals_updater,
        CursorMover(store, committer),
    )
    give_up = ManualGiveUp(store.clock, registry, committer, peer_sync, reader)
    messages = Messages(store, registry, cache, peer_sync, reader, give_up, limits)
    replayer = DeadLetterReplayer(store, registry, committer, mode, keys)
    dead_letters = DeadLetters(store, registry, peer_sync, committer, reader, replayer, limits)
    traces = Traces(store, registry, peer_sync, committer, messages, reader, limits)
    maintenance = Maintenance(
        catalogue,
        peer_sync,
        committer,
        mode,
        level,
        PushBuffer(registry, quotas, peer_sync, mode, pusher, limits),
        BufferDelivery(popper, settler, transactor, mode, limits),
    )

    scan = JournalScan(store, registry, peer_sync, reader)
    journal = Journal(store, registry, waiters, peer_sync, scan)
    reader_groups = ReaderGroups(store, journal, committer)
    area = StagingArea(store, committer)
    sink = Sink(
        store,
        registry,
        mode,
        area,
        Stager(registry, peer_sync, area, StagedBytes(store), RowEncoder(keys, limits)),
        VersionCommitter(
            store,
            committer,
            mode,
            area,
            Publisher(
                store,
                registry,
                committer,
                Admission(store, registry, quotas, level),
                PublicationBuilder(store, catalogue, peer_sync, keys, limits),
            ),
        ),
    )
    inspector = MessageInspector(store, registry, peer_sync, reader)
    insight = Insight(
        clock=store.clock,
        health=StoreHealth(store, registry, waiters, committer),
        queues=QueueSummaryReader(
            store,
            registry,
            waiters,
            peer_sync,
            totals_updater,
            DeadLetterCounter(store, registry, meter),
        ),
        groups=GroupLagReader(
            store.clock,
            registry,
            peer_sync,
            reader_groups,
            ExactLagReader(store, registry, totals_updater),
            QueueBacklogReader(totals_updater),
        ),
        messages=MessageBrowser(store, registry, peer_sync, inspector, limits),
        dead_letters=DeadLetterBrowser(registry, peer_sync, dead_letters, limits),
        traces=TraceSearch(registry, peer_sync, traces, reader, limits),
        metrics=meter.metrics,
        latencies=latencies,
    )
    return Parts(
        registry=registry,
        loader=loader,
        waiters=waiters,
        catalogue=catalogue,
        committer=committer,
        peer_sync=peer_sync,
        pusher=pusher,
        popper=popper,
        settler=settler,
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
            store,
            registry,
            peer_sync,
            MessageExpiry(store, registry.scheduler, queues, evictor, reader_groups),
            sink,
            latencies,
        ),
        remover=Remover(store),
        totals_updater=totals_updater,
        latencies=latencies,
    )
