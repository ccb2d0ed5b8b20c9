"""Read-only questions for the dashboard, the command line and the API."""

from skep.core.browse import Browsing
from skep.core.catalogue import Catalogue
from skep.core.committer import Committer
from skep.core.counting import Counting
from skep.core.dead_letters import DeadLetters
from skep.core.following import Following
from skep.core.health import Health
from skep.core.lag import Lags
from skep.core.latency_log import LatencyLog
from skep.core.letters import Letters
from skep.core.limits import Limits
from skep.core.meter import Meter
from skep.core.observe import Observing
from skep.core.overview import Overview
from skep.core.readers import Readers
from skep.core.reading import Reading
from skep.core.trace_search import TraceSearch
from skep.core.traces import Traces
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
