"""Metrics for Prometheus, gathered for each scrape."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from skep.http.request import HttpRequest
from skep.model.quota import Quota
from skep.model.stats import GroupLag, QueueSummary
from skep.model.tally import Tally
from skep.wire.admin.group import seconds_since
from skep.wire.stats.throughput import WorkerStats

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

_COUNTED = (
    ("pushed", "Messages pushed."),
    ("popped", "Messages delivered, counting redeliveries."),
    ("acked", "Messages acknowledged."),
    ("failed", "Messages that failed and will be redelivered."),
    ("dead_letters", "Messages that became dead letters."),
)


class _StaticCollector(Collector):
    """Metrics that were gathered before."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def expose(metrics: Sequence[Metric]) -> bytes:
    """Metrics, and those of the process, in the text format."""
    registry = CollectorRegistry()
    registry.register(_StaticCollector(metrics))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


def server_metrics(request: HttpRequest, worker: WorkerStats, *, healthy: bool) -> list[Metric]:
    """Metrics that need no permission: they contain no queue names."""
    up = GaugeMetricFamily("skep_up", "Whether the store accepts writes.", value=float(healthy))
    info = GaugeMetricFamily("skep_info", "The server.", labels=("version", "worker_id"))
    info.add_metric((worker.version, worker.worker_id), 1)
    uptime = GaugeMetricFamily(
        "skep_uptime_seconds", "Seconds since the server started.", value=worker.uptime_seconds
    )
    responses = CounterMetricFamily(
        "skep_http_requests",
        "HTTP requests.",
        labels=("method", "route", "status"),
    )
    for (method, route, status), count in sorted(request.server_info.responses.items()):
        responses.add_metric((method, route, str(status)), count)
    insight = request.broker.insight
    store = (
        GaugeMetricFamily(f"skep_{gauge.name}", gauge.about, value=gauge.value)
        for gauge in insight.health.gauges()
    )
    total = insight.metrics.total(lambda queue: True)
    counted = (_total(total, name, about) for name, about in _COUNTED)
    return [
        up,
        info,
        uptime,
        responses,
        *_connection_metrics(request),
        _quota_metric(request),
        *store,
        *counted,
    ]


def _connection_metrics(request: HttpRequest) -> list[Metric]:
    rejected = CounterMetricFamily(
        "skep_http_rejected", "Connections closed early, by reason.", labels=("reason",)
    )
    for reason, count in sorted(request.server_info.rejections.counts.items()):
        rejected.add_metric((reason,), count)
    unfinished = GaugeMetricFamily(
        "skep_http_unfinished_body_bytes",
        "Bytes of incomplete request bodies.",
        value=request.server_info.bodies.used,
    )
    return [rejected, unfinished]


def _quota_metric(request: HttpRequest) -> Metric:
    refused = CounterMetricFamily(
        "skep_quota_refused", "Requests rejected because of a quota.", labels=("quota",)
    )
    for name in Quota.__struct_fields__:
        refused.add_metric((name,), request.server_info.quota_rejections[name])
    return refused


def queue_metrics(summaries: Sequence[QueueSummary], tallies: dict[str, Tally]) -> list[Metric]:
    """Metrics by queue."""
    gauges = [
        _gauge("partitions", "Partitions of a queue.", summaries, lambda each: each.partitions),
        _gauge("messages", "Messages in the log.", summaries, lambda each: each.counts.total),
        _gauge("pending", "Messages waiting.", summaries, lambda each: each.counts.pending),
        _gauge("processing", "Messages in flight.", summaries, lambda each: each.counts.processing),
        _gauge("dead_letters", "Dead letters.", summaries, lambda each: each.counts.dead_letters),
    ]
    counters = [_by_queue(tallies, name, about) for name, about in _COUNTED]
    return [*gauges, *counters]


def group_metrics(lags: Sequence[GroupLag], now: datetime) -> list[Metric]:
    """Metrics by group."""
    labels = ("queue", "group")
    backlog = GaugeMetricFamily("skep_group_backlog", "Messages not completed.", labels=labels)
    age = GaugeMetricFamily(
        "skep_group_lag_seconds",
        "Age of the oldest message not completed.",
        labels=labels,
    )
    members = GaugeMetricFamily("skep_group_members", "Consumers that hold a lease.", labels=labels)
    for lag in lags:
        labels_of_lag = lag.queue, lag.group
        backlog.add_metric(labels_of_lag, lag.backlog)
        age.add_metric(labels_of_lag, seconds_since(lag.oldest_at, now))
        members.add_metric(labels_of_lag, lag.members)
    return [backlog, age, members]


def _gauge(
    name: str,
    about: str,
    summaries: Sequence[QueueSummary],
    value: Callable[[QueueSummary], int],
) -> Metric:
    gauge = GaugeMetricFamily(f"skep_queue_{name}", about, labels=("queue",))
    for summary in summaries:
        gauge.add_metric((summary.queue.name,), value(summary))
    return gauge


def _total(tally: Tally, name: str, about: str) -> Metric:
    return CounterMetricFamily(f"skep_messages_{name}", about, value=getattr(tally, name))


def _by_queue(tallies: dict[str, Tally], name: str, about: str) -> Metric:
    counter = CounterMetricFamily(f"skep_queue_messages_{name}", about, labels=("queue",))
    for queue, tally in sorted(tallies.items()):
        counter.add_metric((queue,), getattr(tally, name))
    return counter
