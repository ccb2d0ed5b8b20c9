"""Maintenance."""

from skep.core.admin.maintenance import Maintenance
from skep.http.auth.principal import Permission
from skep.http.request import HttpRequest, HttpResponse
from skep.http.routing import Handler, Route, every_queue, no_queue
from skep.wire.admin.maintenance import BufferStats, MaintenanceResponse, SwitchBody


async def show(request: HttpRequest) -> HttpResponse:
    await request.broker.catch_up()
    return HttpResponse(_response(request))


async def switch_pushing(request: HttpRequest) -> HttpResponse:
    """Begin or end to buffer pushes."""
    await request.broker.maintenance.set_pushing(request.body.enabled)
    return HttpResponse(_response(request))


async def switch_popping(request: HttpRequest) -> HttpResponse:
    """Begin or end to answer every pop with nothing."""
    await request.broker.maintenance.set_popping(request.body.enabled)
    return HttpResponse(_response(request))


def _response(request: HttpRequest) -> MaintenanceResponse:
    maintenance = request.broker.maintenance
    words = [
        _push_mode(maintenance),
        "pops find nothing" if maintenance.popping else "pops are served",
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
        path=f"/api/v1/system/{path}",
        handler=handler,
        needs=Permission.ADMIN,
        # To look is harmless; to switch stops everybody's queues.
        queues=no_queue if body is None else every_queue,
        summary=summary,
        body=body,
        response=MaintenanceResponse,
    )


ROUTES = (
    _route("GET", "maintenance", show, "What is in maintenance."),
    _route(
        "POST",
        "maintenance",
        switch_pushing,
        "Lay pushes aside, durably; at the end they are delivered in order.",
        SwitchBody,
    ),
    _route("GET", "maintenance/pop", show, "What is in maintenance."),
    _route("POST", "maintenance/pop", switch_popping, "Answer every pop with nothing.", SwitchBody),
    _route("GET", "shared-state", show, "What is in maintenance."),
)
