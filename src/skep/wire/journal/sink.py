"""``/api/v1/journal``: staging rows, and publishing them once."""

from typing import Annotated

import msgspec

from skep.model.sink import Published, Stage
from skep.wire.body import Body

MAX_STAGES = 100_000
"""One for each task of a job."""


class StageQuery(Body, frozen=True, kw_only=True):
    """The stage of a chunk; ``queue`` is for rows without one."""

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
    """Stages in the order in which they are published; a batch job has no ``version``.

    ``checkpoint`` identifies a query and its progress, to detect that it runs an epoch again.
    """

    app: str
    version: int | None = None
    checkpoint: str | None = None
    stages: Annotated[list[StageItem], msgspec.Meta(max_length=MAX_STAGES)]


class CommitResponse(Body, frozen=True, kw_only=True):
    """``duplicate`` is true if the version had been published before; nothing was published now."""

    duplicate: bool
    rows: int


class AppResponse(Body, frozen=True, kw_only=True):
    """``version`` is the last committed one; after a reset, the one whose record was deleted."""

    app: str
    version: int | None


def to_stages(body: CommitBody) -> list[Stage]:
    return [Stage(stage=each.stage, chunks=each.chunks, rows=each.rows) for each in body.stages]


def from_published(published: Published) -> CommitResponse:
    return CommitResponse(duplicate=published.duplicate, rows=published.rows)
