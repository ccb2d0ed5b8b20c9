"""Pipeline runs that were reported to a server.

Generated from ``async_pipelines.py``: change that, then ``make sync``.
"""

from collections.abc import Sequence

from skep.client.request import delete, put, read
from skep.client.sync_connection import Connection
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


class PipelinesResource:
    """The methods of ``Broker.pipelines``, over HTTP."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def put(self, run: PipelineRun) -> PipelineRun:
        """Report the progress or the end of a run; return it with the server's time."""
        check_run(run)
        answer = self._connection.send(put(paths.pipeline(run.id), from_run(run)))
        return from_row(answer.decode(PipelineRow))

    def get(self, identity: str) -> PipelineRun:
        """Return the last report of a run."""
        answer = self._connection.send(read(paths.pipeline(check_name("id", identity))))
        return from_row(answer.decode(PipelineRow))

    def list(self, *, limit: int = 100, offset: int = 0) -> Sequence[PipelineRun]:
        """Return the runs of all machines, newest first."""
        request = read(paths.PIPELINES, limit=limit, offset=offset)
        answer = self._connection.send(request)
        return [from_row(row) for row in answer.decode(PipelinesResponse).pipelines]

    def delete(self, identity: str) -> None:
        """Delete the record of a run. The next report of a run that is still active restores it."""
        request = delete(paths.pipeline(check_name("id", identity)))
        answer = self._connection.send(request)
        if not answer.decode(DeletedPipeline).existed:
            raise NotFound(f"pipeline run {identity!r} does not exist")
