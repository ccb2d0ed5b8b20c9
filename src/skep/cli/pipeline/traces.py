"""``skep pipeline run traces``."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skep.cli import output
from skep.cli.pipeline.job import Job, job, report_path
from skep.cli.pipeline.options import Place, Queues, Report, To, placed, seconds_of

if TYPE_CHECKING:
    from skep.spark.traces_page import Findings

SHOWN = 50

Final = Annotated[
    list[str] | None,
    typer.Option(
        help="A queue in which journeys end; may be given several times.  "
        "[default: those from which none goes on]"
    ),
]
Within = Annotated[str, typer.Option(help="A journey that takes longer is stuck: 10s, 15m, 1h.")]


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
    """Join messages by trace id into journeys, and find those that are stuck.

    What is found is in Parquet files and on a page with a drawing of the flow.
    """
    to = place.located(to)
    seconds, page = seconds_of(within), report_path(to, report)
    with job(place, "traces", tuple(queue or ()), to) as work:
        from skep.spark.traces_page import page_of

        now = datetime.now(UTC)
        found = _findings(work, to, final, seconds, now)
        work.records.count(work.run, sum(found.stops.values()))
        page_of(found, within=within, now=now).write(page)
    _print(found, str(page), as_json=place.as_json)


def _findings(
    work: Job, to: str, final: Sequence[str] | None, seconds: float, now: datetime
) -> "Findings":
    from skep.spark import traces as steps
    from skep.spark.traces_page import Findings

    spark, source = work.spark, work.source
    steps.steps(source.read(spark, steps.SCHEMA)).write.mode("overwrite").parquet(f"{to}/steps")
    walked = spark.read.parquet(f"{to}/steps")
    edges = steps.edges(walked)
    ends = sorted(final) if final else steps.final_queues(edges)
    letters = source.view(spark, "dead-letters").where("trace_id IS NOT NULL")
    found = steps.with_errors(steps.journeys(walked, ends, seconds, now), letters)
    found.write.mode("overwrite").parquet(f"{to}/journeys")
    journeys = spark.read.parquet(f"{to}/journeys")
    edges.write.mode("overwrite").parquet(f"{to}/edges")
    stuck = journeys.where("state = 'stuck'").orderBy("begun_at", "trace_id")
    return Findings(
        edges=[row.asDict() for row in edges.collect()],
        endings=[row.asDict() for row in steps.endings(journeys).collect()],
        stops={row.queue: row.journeys for row in steps.visited(walked).collect()},
        stuck=[row.asDict() for row in stuck.limit(SHOWN).collect()],
        final=ends,
    )


def _print(found: "Findings", page: str, *, as_json: bool) -> None:
    if as_json:
        shown = {
            "endings": output.shown_rows(found.endings),
            "edges": output.shown_rows(found.edges),
            "stuck": output.shown_rows(found.stuck),
            "final": found.final,
            "report": page,
        }
        output.print_document(shown)
        return
    _print_rows(
        ("journeys", "queue", "count", "with a dead letter", "the oldest began", "longest s"),
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
