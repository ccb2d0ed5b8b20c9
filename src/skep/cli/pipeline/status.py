"""``skep pipeline status``."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from skep.cli import output
from skep.cli.connect import DEFAULT_URL, Token, Url, connect
from skep.cli.options import Json
from skep.cli.pipeline.job import lag_of
from skep.cli.pipeline.run_reporter import this_host, to_pipeline_run
from skep.errors import SkepError
from skep.model.pipeline import PipelineRun
from skep.pipelines.record import Records, RunRecord

TIMEOUT_SECONDS = 5


class KnownRun(NamedTuple):
    """A run, the URL of its server, and its checkpoint if it is local."""

    run: PipelineRun
    url: str
    checkpoint: str | None = None


def status(url: Url = DEFAULT_URL, token: Token = None, as_json: Json = False) -> None:
    """List the runs that the server and this machine know, newest first.

    The lag of a stream is shown if its server is available.
    """
    known_runs = merged(Records().list(), _reported(url, token), url)
    lags = [(known, _lag(known, token)) for known in known_runs]
    output.print_list(
        [_to_json(known, lag) for known, lag in lags],
        ("run", "state", "messages", "lag", "updated at", "host", "queues", "to", "error"),
        [_row(known.run, lag) for known, lag in lags],
        as_json=as_json,
        empty="no pipeline runs yet; skep pipeline list shows the pipelines",
    )


def merged(local: Iterable[RunRecord], reported: Iterable[PipelineRun], url: str) -> list[KnownRun]:
    """Return each run once: the local record, unless another machine has continued the run."""
    known = {run.id: KnownRun(to_pipeline_run(run), run.url, run.checkpoint) for run in local}
    for run in reported:
        if run.id not in known or _continued(known[run.id].run, run):
            known[run.id] = KnownRun(run, url)
    return sorted(known.values(), key=lambda each: _updated_at(each.run), reverse=True)


def _continued(local: PipelineRun, reported: PipelineRun) -> bool:
    return reported.host != local.host and _updated_at(reported) > _updated_at(local)


def _updated_at(run: PipelineRun) -> datetime:
    assert run.updated_at is not None
    return run.updated_at


def _reported(url: str, token: str | None) -> Sequence[PipelineRun]:
    try:
        with connect(url, token, timeout=TIMEOUT_SECONDS) as client:
            return client.pipelines.list()
    except SkepError as error:
        output.note(f"showing only runs of {this_host()}: {error}")
        return ()


def _lag(known: KnownRun, token: str | None) -> int | None:
    with connect(known.url, token, timeout=TIMEOUT_SECONDS) as client:
        return lag_of(client, known.run)


def _row(run: PipelineRun, lag: int | None) -> tuple[object, ...]:
    return (
        *(run.id, run.state, run.messages, lag, run.updated_at, run.host),
        *(", ".join(run.queues) or "all", run.target or None, run.error),
    )


def _to_json(known: KnownRun, lag: int | None) -> dict[str, object]:
    place = {"url": known.url, "checkpoint": known.checkpoint}
    return output.fields_of(known.run) | place | {"lag": lag}
