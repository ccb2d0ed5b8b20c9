"""Runs of pipelines: report and list."""

from collections.abc import Iterable

from skep.errors import NotFound
from skep.http.auth.principal import Permission, Principal, not_accessible
from skep.http.request import HttpRequest, HttpResponse
from skep.http.routing import Route, delete, every_queue, get, no_queue
from skep.model.pipeline import PipelineRun
from skep.wire import paths
from skep.wire.admin.pipeline_run import (
    DeletedPipeline,
    PipelineBody,
    PipelineRow,
    PipelinesQuery,
    PipelinesResponse,
    to_row,
    to_run,
)


async def put(request: HttpRequest) -> HttpResponse:
    """Store the reported state of a run."""
    stored = await request.broker.pipelines.find(request.params["id"])
    if stored is not None:
        _check(request, stored)
    return HttpResponse(
        to_row(await request.broker.pipelines.put(to_run(request.params["id"], request.body)))
    )


async def runs(request: HttpRequest) -> HttpResponse:
    """The runs whose queues the caller may all see."""
    query: PipelinesQuery = request.query
    visible = [
        run for run in await request.broker.pipelines.list() if _sees(request.principal, run)
    ]
    page = visible[query.offset : query.offset + query.limit]
    return HttpResponse(
        PipelinesResponse(pipelines=[to_row(run) for run in page], total=len(visible))
    )


async def run(request: HttpRequest) -> HttpResponse:
    """One run."""
    return HttpResponse(to_row(await _seen(request)))


async def delete_run(request: HttpRequest) -> HttpResponse:
    """Delete the record of a run; not an error if there is none."""
    name = request.params["id"]
    try:
        await _seen(request)
        await request.broker.pipelines.delete(name)
    except NotFound:
        return HttpResponse(DeletedPipeline(id=name, existed=False))
    return HttpResponse(DeletedPipeline(id=name, existed=True))


async def _seen(request: HttpRequest) -> PipelineRun:
    try:
        run = await request.broker.pipelines.get(request.params["id"])
    except NotFound:
        if request.principal.restricted:
            raise not_accessible() from None
        raise
    _check(request, run)
    return run


def _check(request: HttpRequest, run: PipelineRun) -> None:
    if not _sees(request.principal, run):
        raise not_accessible()


def _sees(principal: Principal, run: PipelineRun) -> bool:
    return all(map(principal.sees, run.queues)) if run.queues else not principal.restricted


def _of_body(request: HttpRequest) -> Iterable[str]:
    return request.body.queues or every_queue(request)


ROUTES = (
    Route(
        method="PUT",
        path=paths.PIPELINE,
        handler=put,
        needs=Permission.POP,
        queues=_of_body,
        summary="Report the progress or the end of a pipeline run.",
        body=PipelineBody,
        response=PipelineRow,
    ),
    get(
        path=paths.PIPELINES,
        handler=runs,
        needs=Permission.STATUS,
        queues=no_queue,
        summary="List the pipeline runs of all machines, newest first.",
        query=PipelinesQuery,
        response=PipelinesResponse,
    ),
    get(
        path=paths.PIPELINE,
        handler=run,
        needs=Permission.STATUS,
        queues=no_queue,
        summary="Return one pipeline run.",
        response=PipelineRow,
    ),
    delete(
        path=paths.PIPELINE,
        handler=delete_run,
        needs=Permission.ADMIN,
        queues=no_queue,
        summary="Delete the record of a pipeline run; the pipeline itself keeps running.",
        response=DeletedPipeline,
    ),
)
