"""Runs of pipelines: telling of them, and looking at them."""

from collections.abc import Iterable

from skep.errors import NotFound
from skep.http.auth.principal import Permission, Principal, not_yours
from skep.http.request import Call, Reply
from skep.http.routing import Route, delete, every_queue, get, no_queue
from skep.model.pipeline import PipelineRun
from skep.wire.admin.pipeline_run import (
    DeletedPipeline,
    PipelineBody,
    PipelineRow,
    PipelineRows,
    PipelinesQuery,
    to_row,
    to_run,
)


async def put(call: Call) -> Reply:
    """Keep what is said of a run."""
    known = await call.broker.pipelines.find(call.params["id"])
    if known is not None:
        _check(call, known)
    return Reply(to_row(await call.broker.pipelines.put(to_run(call.params["id"], call.body))))


async def runs(call: Call) -> Reply:
    """The runs all of whose queues the caller sees."""
    query: PipelinesQuery = call.query
    found = [run for run in await call.broker.pipelines.list() if _sees(call.principal, run)]
    page = found[query.offset : query.offset + query.limit]
    return Reply(PipelineRows(pipelines=[to_row(run) for run in page], total=len(found)))


async def run(call: Call) -> Reply:
    """One run."""
    return Reply(to_row(await _seen(call)))


async def delete_run(call: Call) -> Reply:
    """Forget a run. That there is none is no error: it is gone."""
    name = call.params["id"]
    try:
        await _seen(call)
        await call.broker.pipelines.delete(name)
    except NotFound:
        return Reply(DeletedPipeline(id=name, existed=False))
    return Reply(DeletedPipeline(id=name, existed=True))


async def _seen(call: Call) -> PipelineRun:
    try:
        found = await call.broker.pipelines.get(call.params["id"])
    except NotFound:
        if call.principal.restricted:
            raise not_yours() from None
        raise
    _check(call, found)
    return found


def _check(call: Call, run: PipelineRun) -> None:
    if not _sees(call.principal, run):
        raise not_yours()


def _sees(principal: Principal, run: PipelineRun) -> bool:
    return all(map(principal.sees, run.queues)) if run.queues else not principal.restricted


def _of_body(call: Call) -> Iterable[str]:
    return call.body.queues or every_queue(call)


ROUTES = (
    Route(
        method="PUT",
        path="/api/v1/pipelines/{id}",
        handler=put,
        needs=Permission.POP,
        queues=_of_body,
        about="Say how far a run of a pipeline is, or how it ended.",
        body=PipelineBody,
        answer=PipelineRow,
    ),
    get(
        path="/api/v1/pipelines",
        handler=runs,
        needs=Permission.STATUS,
        queues=no_queue,
        about="The runs of pipelines on all machines, the newest first.",
        query=PipelinesQuery,
        answer=PipelineRows,
    ),
    get(
        path="/api/v1/pipelines/{id}",
        handler=run,
        needs=Permission.STATUS,
        queues=no_queue,
        about="A run of a pipeline.",
        answer=PipelineRow,
    ),
    delete(
        path="/api/v1/pipelines/{id}",
        handler=delete_run,
        needs=Permission.ADMIN,
        queues=no_queue,
        about="Forget a run of a pipeline; the pipeline itself goes on.",
        answer=DeletedPipeline,
    ),
)
