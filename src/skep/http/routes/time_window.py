"""Which queues and which time a request for numbers is about."""

from collections.abc import Callable
from datetime import datetime

from skep.http.request import Call
from skep.http.routes.lookup import asked_queues
from skep.model.name import to_datetime
from skep.model.queue import Queue
from skep.wire.stats.throughput import Worker
from skep.wire.stats.time_window import Window, WindowQuery, to_window


def now(call: Call) -> datetime:
    return to_datetime(call.broker.insight.clock.now())


def window(call: Call, *, minutes: int | None = None) -> Window:
    return to_window(call.query, now(call), minutes=minutes)


async def queues(call: Call) -> list[Queue]:
    """The queues that the request is about and the caller sees."""
    query: WindowQuery = call.query
    return await asked_queues(call, namespace=query.namespace, task=query.task)


async def counted(call: Call) -> Callable[[str], bool]:
    """Which names in the counters the request is about: with those of queues that are gone."""
    query: WindowQuery = call.query
    if query.queue is None and query.namespace is None and query.task is None:
        return call.principal.sees
    names = {config.name for config in await queues(call)}
    return lambda name: name in names


def workers(call: Call) -> list[Worker]:
    """Who serves: this process."""
    door = call.door
    return [
        Worker(
            worker_id=door.worker_id,
            hostname=door.hostname,
            pid=door.pid,
            version=door.version,
            uptime_seconds=door.uptime,
        )
    ]
