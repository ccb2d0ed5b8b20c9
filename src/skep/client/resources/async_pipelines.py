"""Pipeline runs that were reported to a server.

The source of ``sync_pipelines.py``, which ``make sync`` writes.
"""

from collections.abc import Sequence

from skep.client.async_connection import AsyncConnection
from skep.client.request import delete, put, read
from skep.errors import NotFound
from skep.model.name import check_name
from skep.model.pipeline import PipelineRun, check_run
from skep.wire import paths
from skep.wire.admin.pipeline_run import (
    DeletedPipeline,
    PipelineRow,
    PipelinesResponse,
    from_row,
    from_run,
)


class AsyncPipelinesResource:
    """The methods of ``Broker.pipelines``, over HTTP."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def put(self, run: PipelineRun) -> PipelineRun:
        """Report the progress or the end of a run; return it with the server's time."""
        check_run(run)
        answer = await self._connection.send(put(paths.pipeline(run.id), from_run(run)))
        return from_row(answer.decode(PipelineRow))

    async def get(self, identity: str) -> PipelineRun:
        """Return the last report of a run."""
        answer = await self._connection.send(read(paths.pipeline(check_name("id", identity))))
        return from_row(answer.decode(PipelineRow))

    async def list(self, *, limit: int = 100, offset: int = 0) -> Sequence[PipelineRun]:
        """Return the runs of all machines, newest first."""
        request = read(paths.PIPELINES, limit=limit, offset=offset)
        answer = await self._connection.send(request)
        return [from_row(row) for row in answer.decode(PipelinesResponse).pipelines]

    async def delete(self, identity: str) -> None:
        """Delete the record of a run. The next report of a run that is still active restores it."""
        request = delete(paths.pipeline(check_name("id", identity)))
        answer = await self._connection.send(request)
        if not answer.decode(DeletedPipeline).existed:
            raise NotFound(f"pipeline run {identity!r} does not exist")
