"""Runs of pipelines that a server knows.

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


class Pipelines:
    """What ``Broker.pipelines`` has, over HTTP."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def put(self, run: PipelineRun) -> PipelineRun:
        """Say how far a run is, or how it ended; when that is, the server says."""
        check_run(run)
        answer = self._connection.send(put(paths.pipeline(run.id), from_run(run)))
        return from_row(answer.decode(PipelineRow))

    def get(self, identity: str) -> PipelineRun:
        """What was last said of a run."""
        answer = self._connection.send(read(paths.pipeline(check_name("id", identity))))
        return from_row(answer.decode(PipelineRow))

    def list(self, *, limit: int = 100, offset: int = 0) -> Sequence[PipelineRun]:
        """The runs of all machines, the newest first."""
        request = read(paths.PIPELINES, limit=limit, offset=offset)
        answer = self._connection.send(request)
        return [from_row(row) for row in answer.decode(PipelinesResponse).pipelines]

    def delete(self, identity: str) -> None:
        """Forget a run. One that is still running is back when it is next heard of."""
        request = delete(paths.pipeline(check_name("id", identity)))
        answer = self._connection.send(request)
        if not answer.decode(DeletedPipeline).existed:
            raise NotFound(f"there is no run {identity!r} of a pipeline")
