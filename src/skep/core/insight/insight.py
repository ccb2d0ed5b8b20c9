"""Read-only questions for the dashboard, the command line and the API."""

from skep.core.admin.dead_letter import DeadLetters
from skep.core.admin.trace import Traces
from skep.core.cluster.peer_sync import PeerSync
from skep.core.insight.dead_letter_browser import DeadLetterBrowser
from skep.core.insight.group_lag import GroupLagReader
from skep.core.insight.health import StoreHealth
from skep.core.insight.message_browser import MessageBrowser
from skep.core.insight.message_inspector import MessageInspector
from skep.core.insight.queue_summary import QueueSummaryReader
from skep.core.insight.trace_search import TraceSearch
from skep.core.journal.reader_group import ReaderGroups
from skep.core.limits import Limits
from skep.core.log.committer import Committer
from skep.core.log.segment_reader import SegmentReader
from skep.core.metrics.commit_meter import CommitMeter
from skep.core.metrics.latency_history import LatencyHistory
from skep.core.state.catalogue import Catalogue
from skep.core.state.totals_updater import TotalsUpdater
from skep.store.protocol import Store


class Insight:
    """``queues`` in numbers, how far ``groups`` are, what became of ``messages``, dead
    ``letters``, ``traces``, in ``metrics`` what happened lately, and in ``latencies`` how long
    messages took."""

    def __init__(
        self,
        store: Store,
        catalogue: Catalogue,
        peer_sync: PeerSync,
        committer: Committer,
        totals_updater: TotalsUpdater,
        meter: CommitMeter,
        segment_reader: SegmentReader,
        letters: DeadLetters,
        traces: Traces,
        readers: ReaderGroups,
        latencies: LatencyHistory,
        limits: Limits,
    ) -> None:
        self.clock = store.clock
        self.health = StoreHealth(store, catalogue, committer)
        self.inspector = MessageInspector(store, catalogue, peer_sync, segment_reader)
        self.queues = QueueSummaryReader(store, catalogue, peer_sync, totals_updater, meter)
        self.groups = GroupLagReader(store, catalogue, peer_sync, totals_updater, readers)
        self.messages = MessageBrowser(store, catalogue, peer_sync, self.inspector, limits)
        self.letters = DeadLetterBrowser(catalogue, peer_sync, letters, limits)
        self.traces = TraceSearch(catalogue, peer_sync, traces, segment_reader, limits)
        self.metrics = meter.metrics
        self.latencies = latencies
