"""``skep pipeline``: which there are, and how they are."""

import typer

from skep.cli import output
from skep.cli.connect import Token, connect
from skep.cli.options import Json
from skep.cli.pipeline.analytics import analytics
from skep.cli.pipeline.archive import archive
from skep.cli.pipeline.dead_letters import dead_letters
from skep.cli.pipeline.job import lag_of
from skep.cli.pipeline.replay import replay
from skep.cli.pipeline.traces import traces
from skep.cli.pipeline.transform import transform
from skep.pipelines.record import Records, Run

PIPELINES = {
    "archive": archive,
    "replay": replay,
    "analytics": analytics,
    "traces": traces,
    "dead-letters": dead_letters,
    "transform": transform,
}

app = typer.Typer(no_args_is_help=True)
runs = typer.Typer(no_args_is_help=True)
for name, command in PIPELINES.items():
    runs.command(name)(command)


@app.command("list")
def list_pipelines(as_json: Json = False) -> None:
    """List the pipelines."""
    about = {name: (each.__doc__ or "").split("\n")[0] for name, each in PIPELINES.items()}
    output.print_list(about, ("pipeline", ""), list(about.items()), as_json=as_json)


app.add_typer(runs, name="run", help="Run a pipeline.")


@app.command()
def status(token: Token = None, as_json: Json = False) -> None:
    """Show the runs that this machine knows, the newest first.

    The lag of a stream comes from its server, as far as that can be reached.
    """
    found = [(run, _lag(run, token)) for run in Records().list()]
    output.print_list(
        [_shown(run, lag) for run, lag in found],
        ("run", "state", "messages", "lag", "updated at", "queues", "to", "error"),
        [
            (
                *(run.id, run.state, run.messages, lag, run.updated_at),
                *(", ".join(run.queues) or "all", run.target or None, run.error),
            )
            for run, lag in found
        ],
        as_json=as_json,
        empty="no pipeline has run here; skep pipeline list shows which there are",
    )


def _lag(run: Run, token: str | None) -> int | None:
    with connect(run.url, token, timeout=5) as client:
        return lag_of(client, run)


def _shown(run: Run, lag: int | None) -> dict[str, object]:
    return output.fields_of(run) | {"lag": lag}
