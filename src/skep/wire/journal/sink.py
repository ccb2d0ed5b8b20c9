"""``/api/v1/journal``: staging rows, and publishing them once."""

from typing import Annotated

import msgspec

from skep.model.sink import Published, Stage
from skep.wire.body import Body

MAX_STAGES = 100_000
"""One for each task of a job."""


class StageQuery(Body, frozen=True, kw_only=True):
    """Where a chunk belongs; ``queue`` is for the rows that name none."""

    app: str
    version: int | None = None
    stage: str
    chunk: int
    queue: str | None = None


class StageResponse(Body, frozen=True, kw_only=True):
    rows: int


class StageItem(Body, frozen=True, kw_only=True):
    stage: str
    chunks: int
    rows: int


class CommitBody(Body, frozen=True, kw_only=True):
    """Stages in the order in which they are published; ``version`` is left out by a batch job.

    ``checkpoint`` names a query and where it keeps its progress: one that runs an epoch again.
    """

    app: str
    version: int | None = None
    checkpoint: str | None = None
    stages: Annotated[list[StageItem], msgspec.Meta(max_length=MAX_STAGES)]


class CommitResponse(Body, frozen=True, kw_only=True):
    """``duplicate`` if the version was published before, and nothing was published now."""

    duplicate: bool
    rows: int


class AppResponse(Body, frozen=True, kw_only=True):
    """``version`` is the last that was committed; after a reset, the one that was forgotten."""

    app: str
    version: int | None


def to_stages(body: CommitBody) -> list[Stage]:
    return [Stage(stage=each.stage, chunks=each.chunks, rows=each.rows) for each in body.stages]


def from_published(published: Published) -> CommitResponse:
    return CommitResponse(duplicate=published.duplicate, rows=published.rows)
