"""``skep pipeline``: list, run, status."""

import typer

from skep.cli import output
from skep.cli.options import Json
from skep.cli.pipeline.analytics import analytics
from skep.cli.pipeline.archive import archive
from skep.cli.pipeline.dead_letters import dead_letters
from skep.cli.pipeline.replay import replay
from skep.cli.pipeline.status import status
from skep.cli.pipeline.traces import traces
from skep.cli.pipeline.transform import transform

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
    """List the available pipelines."""
    summaries = {name: (run.__doc__ or "").split("\n")[0] for name, run in PIPELINES.items()}
    output.print_list(summaries, ("pipeline", ""), list(summaries.items()), as_json=as_json)


app.add_typer(runs, name="run", help="Run a pipeline.")
app.command()(status)
