"""Read-only queries of the dashboard, the command line and the API."""

from dataclasses import dataclass

from skep.core.insight.dead_letter_browser import DeadLetterBrowser
from skep.core.insight.group_lag import GroupLagReader
from skep.core.insight.health import StoreHealth
from skep.core.insight.message_browser import MessageBrowser
from skep.core.insight.queue_summary import QueueSummaryReader
from skep.core.insight.trace_search import TraceSearch
from skep.core.metrics.counters import QueueCounters
from skep.core.metrics.latency_history import LatencyHistory
from skep.store.clock import Clock


@dataclass(frozen=True, slots=True)
class Insight:
    """``metrics`` has recent counts per queue, ``latencies`` the push-to-ack latencies."""

    clock: Clock
    health: StoreHealth
    queues: QueueSummaryReader
    groups: GroupLagReader
    messages: MessageBrowser
    dead_letters: DeadLetterBrowser
    traces: TraceSearch
    metrics: QueueCounters
    latencies: LatencyHistory
