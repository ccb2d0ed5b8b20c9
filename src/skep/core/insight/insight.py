"""Read-only questions for the dashboard, the command line and the API."""

from skep.core.admin.dead_letter import DeadLetters
from skep.core.admin.trace import Traces
from skep.core.cluster.peer_sync import Following
from skep.core.insight.dead_letter_browser import Letters
from skep.core.insight.group_lag import Lags
from skep.core.insight.health import Health
from skep.core.insight.message_browser import Browsing
from skep.core.insight.message_inspector import Observing
from skep.core.insight.queue_summary import Overview
from skep.core.insight.trace_search import TraceSearch
from skep.core.journal.reader_group import Readers
from skep.core.limits import Limits
from skep.core.log.committer import Committer
from skep.core.log.segment_reader import Reading
from skep.core.metrics.commit_meter import Meter
from skep.core.metrics.latency_history import LatencyLog
from skep.core.state.catalogue import Catalogue
from skep.core.state.totals_updater import Counting
from skep.store.protocol import Store


class Insight:
    """``queues`` in numbers, how far ``groups`` are, what became of ``messages``, dead
    ``letters``, ``traces``, in ``metrics`` what happened lately, and in ``latencies`` how long
    messages took."""

    def __init__(
        self,
        store: Store,
        catalogue: Catalogue,
        following: Following,
        committer: Committer,
        counting: Counting,
        meter: Meter,
        reading: Reading,
        letters: DeadLetters,
        traces: Traces,
        readers: Readers,
        latencies: LatencyLog,
        limits: Limits,
    ) -> None:
        self.clock = store.clock
        self.health = Health(store, catalogue, committer)
        self.observing = Observing(store, catalogue, following, reading)
        self.queues = Overview(store, catalogue, following, counting, meter)
        self.groups = Lags(store, catalogue, following, counting, readers)
        self.messages = Browsing(store, catalogue, following, self.observing, limits)
        self.letters = Letters(catalogue, following, letters, limits)
        self.traces = TraceSearch(catalogue, following, traces, reading, limits)
        self.metrics = meter.metrics
        self.latencies = latencies
