"""Health checks and metrics of the server."""

import asyncio

from skep.errors import SkepError
from skep.http import prometheus
from skep.http.auth.principal import Permission
from skep.http.process.usage import usage_now
from skep.http.request import HttpRequest, HttpResponse
from skep.http.routes.time_window import now, workers
from skep.http.routing import get, no_queue
from skep.wire import paths
from skep.wire.stats.health import (
    Alive,
    HealthResponse,
    MetricsResponse,
    Rate,
    ReadyResponse,
    to_cpu,
    to_memory,
)
from skep.wire.stats.status_queue import to_duration_text

PATIENCE = 2.0
"""Seconds after which a store that does not respond counts as unhealthy."""
UNWELL = "the store does not accept writes; see the server's log"


async def health(request: HttpRequest) -> HttpResponse:
    """Whether the store accepts writes; 503 if not."""
    problem = await _problem(request)
    server_info = request.server_info
    return HttpResponse(
        HealthResponse(
            status="unhealthy" if problem else "healthy",
            database="disconnected" if problem else "connected",
            server="skep",
            worker_id=server_info.worker_id,
            version=server_info.version,
            uptime=to_duration_text(server_info.uptime),
            error=problem,
        ),
        503 if problem else 200,
    )


async def live(request: HttpRequest) -> HttpResponse:
    """Whether the process responds. The store is not checked: a restart would not repair it."""
    return HttpResponse(Alive())


async def ready(request: HttpRequest) -> HttpResponse:
    """Whether to send requests to this server; 503 if not, also while it is stopping."""
    problem = (
        "the server is stopping"
        if request.broker.insight.health.is_stopping
        else await _problem(request)
    )
    return HttpResponse(
        ReadyResponse(status="not ready" if problem else "ready", error=problem),
        503 if problem else 200,
    )


async def _problem(request: HttpRequest) -> str | None:
    """The problem of the store; in full only with the permission status."""
    try:
        async with asyncio.timeout(PATIENCE):
            await request.broker.insight.health.check()
    except TimeoutError:
        return "the store does not respond"
    except SkepError as error:
        return str(error) if request.may(Permission.STATUS) else UNWELL
    return None


async def metrics(request: HttpRequest) -> HttpResponse:
    """A few metrics, without names of queues."""
    counters, usage, uptime = (
        request.broker.insight.metrics,
        usage_now(),
        request.server_info.uptime,
    )
    total = counters.total(lambda queue: True)
    tally, seconds = counters.lately(lambda queue: True)
    requests = request.server_info.responses.total()
    return HttpResponse(
        MetricsResponse(
            uptime=uptime,
            requests=Rate(total=requests, rate=requests / max(1.0, uptime)),
            messages=Rate(
                total=total.pushed + total.popped, rate=(tally.pushed + tally.popped) / seconds
            ),
            memory=to_memory(usage),
            cpu=to_cpu(usage),
        )
    )


async def scrape(request: HttpRequest) -> HttpResponse:
    """Metrics for Prometheus; those of queues only with the permission status."""
    insight, sees = request.broker.insight, request.principal.sees
    (worker,) = workers(request)
    families = prometheus.server_metrics(request, worker, healthy=await _problem(request) is None)
    if request.may(Permission.STATUS) and not insight.health.is_closed:
        visible = await insight.queues.find(sees)
        names = {config.name for config in visible}
        tallies = insight.metrics.totals(lambda name: name in names)
        families += prometheus.queue_metrics(await insight.queues.queues(visible), tallies)
        families += prometheus.group_metrics(await insight.groups.groups(sees), now(request))
    return HttpResponse(prometheus.expose(families), media_type=prometheus.CONTENT_TYPE)


ROUTES = (
    get(
        path=paths.HEALTH,
        handler=health,
        needs=Permission.NONE,
        queues=no_queue,
        summary="Check that the server works; 503 if the store does not accept writes.",
        response=HealthResponse,
    ),
    get(
        path=paths.LIVE,
        handler=live,
        needs=Permission.NONE,
        queues=no_queue,
        summary="Check that the process responds, whatever the state of its store.",
        response=Alive,
    ),
    get(
        path=paths.READY,
        handler=ready,
        needs=Permission.NONE,
        queues=no_queue,
        summary="Check whether to send requests to this server; 503 if not.",
        response=ReadyResponse,
    ),
    get(
        path=paths.METRICS,
        handler=metrics,
        needs=Permission.NONE,
        queues=no_queue,
        summary="Basic metrics of this server.",
        response=MetricsResponse,
    ),
    get(
        path=paths.PROMETHEUS,
        handler=scrape,
        needs=Permission.NONE,
        queues=no_queue,
        summary="Metrics in Prometheus' text format; those of queues need the permission 'status'.",
        media_type="text/plain",
    ),
)
