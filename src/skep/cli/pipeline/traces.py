"""``skep pipeline run traces``."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skep.cli import output
from skep.cli.pipeline.identity import RunIdentity
from skep.cli.pipeline.job import job, report_path
from skep.cli.pipeline.options import Place, Queues, Report, To, placed, seconds_of

if TYPE_CHECKING:
    from skep.pipelines.pages.traces import TraceReport

Final = Annotated[
    list[str] | None,
    typer.Option(
        help="Queue in which journeys end. Repeatable. Default: queues that no journey leaves."
    ),
]
Within = Annotated[
    str, typer.Option(help="A journey that takes longer is stuck; such as 10s, 15m or 1h.")
]


@placed
def traces(
    to: To,
    queue: Queues = None,
    final: Final = None,
    within: Within = "1h",
    report: Report = None,
    *,
    place: Place,
) -> None:
    """Follow messages by trace id, and find stuck ones.

    Messages that share a trace id are joined into journeys through queues. The results are
    written as Parquet files and as an HTML page with a flow chart.
    """
    to = place.located(to)
    seconds, page = seconds_of(within), report_path(to, report)
    with job(place, RunIdentity("traces", tuple(queue or ()), to, has_files=True)) as work:
        from skep.pipelines.pages.traces import page_of
        from skep.pipelines.traces import follow

        now = datetime.now(UTC)
        found = follow(work.spark, work.source, to, final=final, within_seconds=seconds, now=now)
        work.records.count(work.run, sum(found.stops.values()))
        page_of(found, within=within, now=now).write(page)
    _print(found, str(page), as_json=place.as_json)


def _print(found: "TraceReport", page: str, *, as_json: bool) -> None:
    if as_json:
        shown = {
            "endings": output.rows_json(found.endings),
            "edges": output.rows_json(found.edges),
            "stuck": output.rows_json(found.stuck),
            "final": found.final,
            "report": page,
        }
        output.print_document(shown)
        return
    if not found.endings:
        output.print_text(f"no messages with a trace id; see {page}")
        return
    _print_rows(
        ("journeys", "queue", "count", "with a dead letter", "oldest started at", "longest s"),
        found.endings,
        "state last_queue journeys with_error oldest_at longest",
    )
    output.print_text("")
    _print_rows(
        ("from", "to", "steps", "p50 s", "p95 s", "p99 s", "slowest s"),
        found.edges,
        "from_queue to_queue steps p50 p95 p99 slowest",
    )
    output.print_text(f"\nsee {page}")


def _print_rows(columns: Sequence[str], rows: Sequence[Mapping[str, Any]], names: str) -> None:
    cells = [[row[name] for name in names.split()] for row in rows]
    output.print_table(
        columns, [[f"{x:.3f}" if isinstance(x, float) else x for x in row] for row in cells]
    )
