"""``skep pipeline status``."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from skep.cli import output
from skep.cli.connect import DEFAULT_URL, Token, Url, connect
from skep.cli.options import Json
from skep.cli.pipeline.job import lag_of
from skep.cli.pipeline.run_reporter import this_host, to_told
from skep.errors import SkepError
from skep.model.pipeline import PipelineRun
from skep.pipelines.record import Records, RunRecord

PATIENCE_SECONDS = 5


class KnownRun(NamedTuple):
    """A run, the server that it is about, and where it keeps its place if that is here."""

    run: PipelineRun
    url: str
    checkpoint: str | None = None


def status(url: Url = DEFAULT_URL, token: Token = None, as_json: Json = False) -> None:
    """Show the runs that the server and this machine know, the newest first.

    The lag of a stream comes from its server, as far as that can be reached.
    """
    known = merged(Records().list(), _told(url, token), url)
    found = [(each, _lag(each, token)) for each in known]
    output.print_list(
        [_shown(each, lag) for each, lag in found],
        ("run", "state", "messages", "lag", "updated at", "host", "queues", "to", "error"),
        [_row(each.run, lag) for each, lag in found],
        as_json=as_json,
        empty="no pipeline has run yet; skep pipeline list shows which there are",
    )


def merged(local: Iterable[RunRecord], told: Iterable[PipelineRun], url: str) -> list[KnownRun]:
    """Each run once. This machine knows best about its own, unless another went on with them."""
    known = {run.id: KnownRun(to_told(run), run.url, run.checkpoint) for run in local}
    for run in told:
        if run.id not in known or _went_on(known[run.id].run, run):
            known[run.id] = KnownRun(run, url)
    return sorted(known.values(), key=lambda each: _updated_at(each.run), reverse=True)


def _went_on(own: PipelineRun, told: PipelineRun) -> bool:
    return told.host != own.host and _updated_at(told) > _updated_at(own)


def _updated_at(run: PipelineRun) -> datetime:
    assert run.updated_at is not None
    return run.updated_at


def _told(url: str, token: str | None) -> Sequence[PipelineRun]:
    try:
        with connect(url, token, timeout=PATIENCE_SECONDS) as client:
            return client.pipelines.list()
    except SkepError as error:
        output.note(f"only the runs of {this_host()} are shown: {error}")
        return ()


def _lag(known: KnownRun, token: str | None) -> int | None:
    with connect(known.url, token, timeout=PATIENCE_SECONDS) as client:
        return lag_of(client, known.run)


def _row(run: PipelineRun, lag: int | None) -> tuple[object, ...]:
    return (
        *(run.id, run.state, run.messages, lag, run.updated_at, run.host),
        *(", ".join(run.queues) or "all", run.target or None, run.error),
    )


def _shown(known: KnownRun, lag: int | None) -> dict[str, object]:
    place = {"url": known.url, "checkpoint": known.checkpoint}
    return output.fields_of(known.run) | place | {"lag": lag}
