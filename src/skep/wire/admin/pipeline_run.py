"""``/api/v1/pipelines``: runs of pipelines."""

from datetime import datetime
from typing import Literal

import msgspec

from skep.model.pipeline import PipelineRun, State
from skep.wire.body import Body
from skep.wire.pagination import Limit, Skip


class _PipelineFields(Body, frozen=True, kw_only=True):
    pipeline: str
    queues: tuple[str, ...] = ()
    target: str = ""
    messages: int = 0
    batches: int = 0
    groups: tuple[str, ...] = ()
    host: str
    started_at: datetime
    error: str | None = None


class PipelineBody(_PipelineFields, frozen=True, kw_only=True):
    """A run as its host reports it; that a run was interrupted is detected by the server."""

    state: Literal["running", "done", "stopped", "failed"]


class PipelineRow(_PipelineFields, frozen=True, kw_only=True):
    """A run, and when it was last reported."""

    id: str
    state: State
    updated_at: datetime | None


class PipelinesQuery(Body, frozen=True, kw_only=True):
    limit: Limit = 100
    offset: Skip = 0


class PipelinesResponse(Body, frozen=True, kw_only=True):
    """``total`` counts the runs of all pages."""

    pipelines: list[PipelineRow]
    total: int


class DeletedPipeline(Body, frozen=True, kw_only=True):
    """``deleted`` is true also if there was none."""

    deleted: bool = True
    id: str
    existed: bool


def to_run(identity: str, body: PipelineBody) -> PipelineRun:
    return PipelineRun(id=identity, **msgspec.structs.asdict(body))


def from_run(run: PipelineRun) -> PipelineBody:
    fields = {name: getattr(run, name) for name in PipelineBody.__struct_fields__}
    return PipelineBody(**fields)


def to_row(run: PipelineRun) -> PipelineRow:
    return PipelineRow(**msgspec.structs.asdict(run))


def from_row(row: PipelineRow) -> PipelineRun:
    return PipelineRun(**msgspec.structs.asdict(row))
