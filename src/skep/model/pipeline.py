"""Runs of pipelines, as those who run them tell the broker."""

from datetime import datetime
from typing import Literal, TypeAlias, get_args

import msgspec

from skep.errors import Invalid
from skep.model.name import MAX_NUMBER, check_count, check_name, check_text, from_datetime

State: TypeAlias = Literal["running", "done", "stopped", "failed", "interrupted"]

MAX_NAMES = 1000
"""Queues or groups of a run."""
MAX_TEXT = 4096
"""Characters of a target, or of an error."""


class PipelineRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a pipeline, on whichever machine. Without ``queues`` it is about all of them."""

    id: str
    pipeline: str
    queues: tuple[str, ...] = ()
    target: str = ""
    state: State
    messages: int = 0
    batches: int = 0
    groups: tuple[str, ...] = ()
    """Those that read the journal for it."""
    host: str
    started_at: datetime
    """By the clock of its host."""
    updated_at: datetime | None = None
    """When the broker last heard of it, by the store's clock; None if it never did."""
    error: str | None = None


def check_run(run: PipelineRun) -> None:
    """Refuse what cannot be kept, and name the field."""
    for field in ("id", "pipeline", "host"):
        check_name(field, getattr(run, field))
    for field in ("queues", "groups"):
        _check_names(field, getattr(run, field))
    if run.state not in get_args(State):
        raise Invalid("state", f"must be one of {', '.join(get_args(State))}, not {run.state!r}")
    for field in ("messages", "batches"):
        check_count(field, getattr(run, field), most=MAX_NUMBER)
    _check_text("target", run.target)
    if run.error is not None:
        _check_text("error", run.error)
    from_datetime("started_at", run.started_at)


def _check_names(field: str, names: tuple[str, ...]) -> None:
    if len(names) > MAX_NAMES:
        raise Invalid(field, f"must be at most {MAX_NAMES}, not {len(names)}")
    for index, name in enumerate(names):
        check_name(f"{field}[{index}]", name)


def _check_text(field: str, text: str) -> None:
    if len(check_text(field, text)) > MAX_TEXT:
        raise Invalid(field, f"must have at most {MAX_TEXT} characters, not {len(text)}")
