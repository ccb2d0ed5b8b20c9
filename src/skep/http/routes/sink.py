"""The sink: many tasks stage rows, one commit publishes them once."""

import asyncio
from collections.abc import Iterable, Sequence

from skep.core.sink.chunk import CHUNK_ROWS
from skep.errors import Forbidden
from skep.http.auth.principal import FULL_ACCESS, Permission
from skep.http.limits import ANY_SIZE
from skep.http.request import HttpRequest, HttpResponse
from skep.http.routing import Route, every_queue, no_queue
from skep.model.sink import Stage, StagedRows
from skep.wire import paths
from skep.wire.journal.arrow_reader import MEDIA_TYPE, to_rows
from skep.wire.journal.sink import (
    AppResponse,
    CommitBody,
    CommitResponse,
    StageQuery,
    StageResponse,
    from_published,
    to_stages,
)


async def stage(request: HttpRequest) -> HttpResponse:
    query: StageQuery = request.query
    rows = await asyncio.to_thread(_allowed_rows, request)
    count = await request.broker.sink.stage(
        query.app,
        query.version,
        query.stage,
        query.chunk,
        rows,
        queue=query.queue,
        producer=request.principal.subject,
        owner=_owner(request),
    )
    return HttpResponse(StageResponse(rows=count), 201)


async def commit(request: HttpRequest) -> HttpResponse:
    body: CommitBody = request.body
    stages = to_stages(body)
    await _check_queues(request, stages)
    done = await request.broker.sink.commit(
        body.app,
        body.version,
        stages,
        owner=_owner(request),
        checkpoint=body.checkpoint,
    )
    return HttpResponse(from_published(done))


async def abort(request: HttpRequest) -> HttpResponse:
    body: CommitBody = request.body
    stages = to_stages(body)
    await _check_queues(request, stages)
    await request.broker.sink.abort(body.app, body.version, stages, owner=_owner(request))
    return HttpResponse(status=204)


async def app(request: HttpRequest) -> HttpResponse:
    name = request.params["app"]
    version = await request.broker.sink.last_version(name)
    if request.principal.restricted and not await _is_owner(request, name):
        version = None
    return HttpResponse(AppResponse(app=name, version=version))


async def reset(request: HttpRequest) -> HttpResponse:
    name = request.params["app"]
    return HttpResponse(AppResponse(app=name, version=await request.broker.sink.reset(name)))


def _allowed_rows(request: HttpRequest) -> StagedRows:
    rows = to_rows(request.body, most=CHUNK_ROWS)
    if request.principal.restricted:
        request.principal.check_queues({queue for queue in rows.queues or () if queue is not None})
    return rows


async def _is_owner(request: HttpRequest, name: str) -> bool:
    owner = await request.broker.sink.owner(name)
    return owner is not None and owner == request.principal.id


def _owner(request: HttpRequest) -> str | None:
    """The owner of an application: None without authentication."""
    principal = request.principal
    if principal.id is None and principal is not FULL_ACCESS:
        raise Forbidden("an application belongs to a key or a subject: the token has no 'sub'")
    return principal.id


async def _check_queues(request: HttpRequest, stages: Sequence[Stage]) -> None:
    """A caller restricted to some queues may neither publish nor drop rows of others."""
    if request.principal.restricted:
        body: CommitBody = request.body
        queues = await request.broker.sink.queues(body.app, body.version, stages)
        request.principal.check_queues(queues)


def _asked_queue(request: HttpRequest) -> Iterable[str]:
    """The queue in the query; those in the rows are checked when they are decoded."""
    return () if request.query.queue is None else (request.query.queue,)


ROUTES = (
    Route(
        method="POST",
        path=paths.SINK_STAGE,
        handler=stage,
        needs=Permission.PUSH,
        queues=_asked_queue,
        summary="Stage a chunk of rows, invisible until committed; sending it again replaces it.",
        takes=MEDIA_TYPE,
        query=StageQuery,
        response=StageResponse,
        status=201,
    ),
    Route(
        method="POST",
        path=paths.SINK_COMMIT,
        handler=commit,
        needs=Permission.PUSH,
        queues=no_queue,
        summary="Publish stages as a version of an app, once; 409 if rows are missing, "
        "the version is older than the last, or it was committed with other rows.",
        body=CommitBody,
        body_bytes=ANY_SIZE,
        response=CommitResponse,
    ),
    Route(
        method="POST",
        path=paths.SINK_ABORT,
        handler=abort,
        needs=Permission.PUSH,
        queues=no_queue,
        summary="Delete stages, unless they are committed.",
        body=CommitBody,
        body_bytes=ANY_SIZE,
        status=204,
    ),
    Route(
        method="GET",
        path=paths.SINK_APP,
        handler=app,
        needs=Permission.STATUS,
        queues=no_queue,
        summary="Return the last committed version of an app; null if the caller is restricted to "
        "some queues and does not own the app.",
        response=AppResponse,
    ),
    Route(
        method="DELETE",
        path=paths.SINK_APP,
        handler=reset,
        needs=Permission.OPERATE,
        queues=every_queue,
        summary="Delete the record of committed versions of an app, so that it may start over.",
        response=AppResponse,
    ),
)
