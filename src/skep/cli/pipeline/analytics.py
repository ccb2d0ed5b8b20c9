"""``skep pipeline run analytics``."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from skep.cli import output
from skep.cli.pipeline.identity import RunIdentity
from skep.cli.pipeline.job import job, report_path
from skep.cli.pipeline.options import Place, Queues, Report, To, placed, seconds_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skep.pipelines.pages.analytics import AnalyticsReport, Row

Window = Annotated[str, typer.Option(help="Length of a time window, such as 10s, 1m or 1h.")]
Hot = Annotated[
    float,
    typer.Option(
        min=1, help="A partition with more than this multiple of its queue's mean is hot."
    ),
]


@placed
def analytics(
    to: To,
    queue: Queues = None,
    window: Window = "1m",
    hot: Hot = 3.0,
    report: Report = None,
    *,
    place: Place,
) -> None:
    """Report throughput, latencies and lag of queues.

    The report also covers message sizes, hot partitions and dead letters. The results are written
    as Parquet files and as a self-contained HTML page.
    """
    to = place.located(to)
    seconds, page = seconds_of(window), report_path(to, report)
    with job(place, RunIdentity("analytics", tuple(queue or ()), to, has_files=True)) as work:
        from skep.pipelines.analytics import measure
        from skep.pipelines.pages.analytics import page_of

        found = measure(work.spark, work.source, to, window=f"{seconds} seconds", factor=hot)
        messages = sum(row["messages"] for row in found.queues)
        work.records.count(work.run, messages)
        length = timedelta(seconds=seconds)
        page_of(found, window=length, factor=hot, now=datetime.now(UTC)).write(page)
    _print(found, str(page), as_json=place.as_json)


def _print(found: "AnalyticsReport", page: str, *, as_json: bool) -> None:
    if as_json:
        shown = {
            name: output.rows_json(rows) for name, rows in msgspec.structs.asdict(found).items()
        }
        output.print_document({**shown, "report": page})
        return
    names = ("queue", "messages", "bytes", "partitions", "p50", "p95", "p99", "largest")
    output.print_table(names, [[row[name] for name in names] for row in found.queues])
    output.print_text("\nlatency from push to ack, in seconds")
    _print_latencies(found.latencies)
    letters = sum(row["letters"] for row in found.failures)
    late = sum(bool(row["lag"]) for row in found.lags)
    output.print_text(
        f"\n{len(found.hot)} hot partitions, {letters} dead letters, {late} groups behind; "
        f"see {page}"
    )


def _print_latencies(latencies: "Sequence[Row]") -> None:
    figures = ("p50", "p95", "p99", "most")
    output.print_table(
        ("queue", "group", "acknowledged", *figures),
        [
            [
                *(row["queue"], row["consumer_group"], row["messages"]),
                *(f"{row[figure]:.3g}" for figure in figures),
            ]
            for row in latencies
        ],
    )
