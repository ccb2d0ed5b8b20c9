"""The page of ``traces``."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from skep.pipelines.pages.flow import Stop, Way, drawing
from skep.pipelines.pages.page import HtmlPage, cell, lasting

Row = Mapping[str, Any]


class TraceReport(msgspec.Struct, frozen=True, kw_only=True):
    """What ``traces`` has found, few enough to be shown."""

    edges: Sequence[Row]
    endings: Sequence[Row]
    stops: Mapping[str, int]
    """How many journeys came to each queue."""
    stuck: Sequence[Row]
    final: Sequence[str]


def page_of(found: TraceReport, *, within: str, now: datetime) -> HtmlPage:
    page = HtmlPage(
        "Journeys",
        f"Messages of one trace id, through queues. As of {cell(now)} UTC; {_rule(found, within)}.",
    )
    page.figures(
        (state, sum(row["journeys"] for row in found.endings if row["state"] == state))
        for state in ("complete", "under way", "stuck")
    )
    page.section("Flow", "On each way: how many went it, and how long half of them took at most.")
    if found.stops:
        page.drawing(drawing(_stops(found), _ways(found.edges)))
    page.table(
        ("from", "to", "steps", "p50 s", "p95 s", "p99 s", "slowest s"),
        _cells(found.edges, "from_queue to_queue steps p50 p95 p99 slowest"),
    )
    page.section("Where journeys ended", "Or where they are now.")
    page.table(
        ("", "queue", "journeys", "with a dead letter", "the oldest began", "longest s"),
        _cells(found.endings, "state last_queue journeys with_error oldest_at longest"),
    )
    page.section("Stuck", "The oldest of them, and why, as far as there is a dead letter.")
    page.table(
        ("trace id", "began", "path", "partition", "error"),
        _cells(found.stuck, "trace_id begun_at path last_partition error"),
    )
    return page


def _rule(found: TraceReport, within: str) -> str:
    """What makes a journey stuck."""
    if not found.endings:
        return "no message had a trace id"
    if not found.final:
        return f"none went from one queue to another, so what is older than {within} is stuck"
    return f"what reached none of {', '.join(found.final)} within {within} is stuck"


def _cells(rows: Sequence[Row], names: str) -> list[list[object]]:
    return [[row[name] for name in names.split()] for row in rows]


def _stops(found: TraceReport) -> dict[str, Stop]:
    stuck = {row["last_queue"]: row["journeys"] for row in found.endings if row["state"] == "stuck"}
    return {
        queue: Stop(journeys, stuck.get(queue, 0), queue in found.final)
        for queue, journeys in found.stops.items()
    }


def _ways(edges: Sequence[Row]) -> list[Way]:
    return [
        Way(row["from_queue"], row["to_queue"], row["steps"], lasting(row["p50"])) for row in edges
    ]
