"""Maintenance."""

from skep.core.admin.maintenance import Maintenance
from skep.http.auth.principal import Permission
from skep.http.request import HttpRequest, HttpResponse
from skep.http.routing import Handler, Route, every_queue, no_queue
from skep.wire import paths
from skep.wire.admin.maintenance import BufferStats, MaintenanceResponse, SwitchBody


async def show(request: HttpRequest) -> HttpResponse:
    await request.broker.catch_up()
    return HttpResponse(_response(request))


async def switch_pushing(request: HttpRequest) -> HttpResponse:
    """Start or stop buffering pushes."""
    await request.broker.maintenance.set_pushing(request.body.enabled)
    return HttpResponse(_response(request))


async def switch_popping(request: HttpRequest) -> HttpResponse:
    """Start or stop returning no messages from pops."""
    await request.broker.maintenance.set_popping(request.body.enabled)
    return HttpResponse(_response(request))


def _response(request: HttpRequest) -> MaintenanceResponse:
    maintenance = request.broker.maintenance
    words = [
        _push_mode(maintenance),
        "pops return nothing" if maintenance.popping else "pops are served",
    ]
    return MaintenanceResponse(
        maintenance_mode=maintenance.pushing,
        pop_maintenance_mode=maintenance.popping,
        buffered_messages=maintenance.buffered,
        buffer_stats=BufferStats(pending_count=maintenance.buffered),
        message=", ".join(words),
    )


def _push_mode(maintenance: Maintenance) -> str:
    if maintenance.pushing:
        return "pushes are buffered"
    if maintenance.buffers:
        return "buffered pushes are being delivered"
    return "pushes are delivered"


def _route(method: str, path: str, handler: Handler, summary: str, body: object = None) -> Route:
    return Route(
        method=method,
        path=path,
        handler=handler,
        needs=Permission.ADMIN,
        # Reading is harmless; switching stops every queue.
        queues=no_queue if body is None else every_queue,
        summary=summary,
        body=body,
        response=MaintenanceResponse,
    )


ROUTES = (
    _route("GET", paths.MAINTENANCE, show, "Return which maintenance modes are on."),
    _route(
        "POST",
        paths.MAINTENANCE,
        switch_pushing,
        "Turn push maintenance on or off: pushes are buffered durably, then delivered in order.",
        SwitchBody,
    ),
    _route("GET", paths.MAINTENANCE_OF_POPS, show, "Return which maintenance modes are on."),
    _route(
        "POST",
        paths.MAINTENANCE_OF_POPS,
        switch_popping,
        "Turn pop maintenance on or off: every pop returns no messages.",
        SwitchBody,
    ),
    _route("GET", paths.SHARED_STATE, show, "Return which maintenance modes are on."),
)
