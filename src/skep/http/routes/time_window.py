"""The queues and the time range of a request for statistics."""

from collections.abc import Callable
from datetime import datetime

from skep.http.request import HttpRequest
from skep.http.routes.lookup import queues_in_query
from skep.model.name import to_datetime
from skep.model.queue import Queue
from skep.wire.stats.throughput import WorkerStats
from skep.wire.stats.time_window import Window, WindowQuery, to_window


def now(request: HttpRequest) -> datetime:
    return to_datetime(request.broker.insight.clock.now())


def window(request: HttpRequest, *, minutes: int | None = None) -> Window:
    return to_window(request.query, now(request), minutes=minutes)


async def queues(request: HttpRequest) -> list[Queue]:
    """The queues that the request names and the caller may see."""
    query: WindowQuery = request.query
    return await queues_in_query(request, namespace=query.namespace, task=query.task)


async def queue_filter(request: HttpRequest) -> Callable[[str], bool]:
    """Which names in the counters the request includes; also those of deleted queues."""
    query: WindowQuery = request.query
    if query.queue is None and query.namespace is None and query.task is None:
        return request.principal.sees
    names = {config.name for config in await queues(request)}
    return lambda name: name in names


def workers(request: HttpRequest) -> list[WorkerStats]:
    """The servers: this process."""
    server_info = request.server_info
    return [
        WorkerStats(
            worker_id=server_info.worker_id,
            hostname=server_info.hostname,
            pid=server_info.pid,
            version=server_info.version,
            uptime_seconds=server_info.uptime,
        )
    ]
