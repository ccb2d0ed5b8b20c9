"""Whether the server is well, and its numbers for who watches many servers."""

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
from skep.wire.stats.status_queue import to_words

PATIENCE = 2.0
"""Seconds after which a store that does not answer counts as broken."""
UNWELL = "the store takes no writes; the log of the server says why"


async def health(request: HttpRequest) -> HttpResponse:
    """Whether the store takes writes; 503 if it does not."""
    problem = await _problem(request)
    server_info = request.server_info
    return HttpResponse(
        HealthResponse(
            status="unhealthy" if problem else "healthy",
            database="disconnected" if problem else "connected",
            server="skep",
            worker_id=server_info.worker_id,
            version=server_info.version,
            uptime=to_words(server_info.uptime),
            error=problem,
        ),
        503 if problem else 200,
    )


async def live(request: HttpRequest) -> HttpResponse:
    """Whether the process answers. It does not ask the store: a restart would not mend that."""
    return HttpResponse(Alive())


async def ready(request: HttpRequest) -> HttpResponse:
    """Whether requests should be sent here; 503 if not, also while the server is stopping."""
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
    """What is wrong with the store; in full only for who may see the status."""
    try:
        async with asyncio.timeout(PATIENCE):
            await request.broker.insight.health.check()
    except TimeoutError:
        return "the store does not answer"
    except SkepError as error:
        return str(error) if request.may(Permission.STATUS) else UNWELL
    return None


async def metrics(request: HttpRequest) -> HttpResponse:
    """A few numbers, without the names of queues."""
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
    """Numbers for Prometheus; those of queues only for who may see the status."""
    insight, sees = request.broker.insight, request.principal.sees
    (worker,) = workers(request)
    families = prometheus.of_server(request, worker, healthy=await _problem(request) is None)
    if request.may(Permission.STATUS) and not insight.health.is_closed:
        found = await insight.queues.find(sees)
        names = {config.name for config in found}
        tallies = insight.metrics.totals(lambda name: name in names)
        families += prometheus.of_queues(await insight.queues.queues(found), tallies)
        families += prometheus.of_groups(await insight.groups.groups(sees), now(request))
    return HttpResponse(prometheus.expose(families), media_type=prometheus.CONTENT_TYPE)


ROUTES = (
    get(
        path=paths.HEALTH,
        handler=health,
        needs=Permission.NONE,
        queues=no_queue,
        summary="Whether the server can do its work; 503 if the store takes no writes.",
        response=HealthResponse,
    ),
    get(
        path=paths.LIVE,
        handler=live,
        needs=Permission.NONE,
        queues=no_queue,
        summary="Whether the process answers, whatever the state of its store.",
        response=Alive,
    ),
    get(
        path=paths.READY,
        handler=ready,
        needs=Permission.NONE,
        queues=no_queue,
        summary="Whether requests should be sent here; 503 if not.",
        response=ReadyResponse,
    ),
    get(
        path=paths.METRICS,
        handler=metrics,
        needs=Permission.NONE,
        queues=no_queue,
        summary="A few numbers of this server.",
        response=MetricsResponse,
    ),
    get(
        path=paths.PROMETHEUS,
        handler=scrape,
        needs=Permission.NONE,
        queues=no_queue,
        summary="Numbers for Prometheus, as text; those of queues need the permission 'status'.",
        media_type="text/plain",
    ),
)
