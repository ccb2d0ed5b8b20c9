"""The page of ``analytics``."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from skep.pipelines.pages.chart import COLOURS, bars, columns, lines
from skep.pipelines.pages.page import HtmlPage, cell, lasting

Row = Mapping[str, Any]

MOST_WINDOWS = 60
MOST_ROWS = 20
MOST_GROUPS = 3
RED = COLOURS[3]


class AnalyticsReport(msgspec.Struct, frozen=True, kw_only=True):
    """What ``analytics`` has found, few enough to be shown."""

    windows: Sequence[Row]
    queues: Sequence[Row]
    hot: Sequence[Row]
    acks: Sequence[Row]
    latencies: Sequence[Row]
    failures: Sequence[Row]
    lags: Sequence[Row]


def page_of(found: AnalyticsReport, *, window: timedelta, factor: float, now: datetime) -> HtmlPage:
    page = HtmlPage(
        "Queues in numbers",
        f"As of {cell(now)} UTC, in windows of {lasting(window.total_seconds())}.",
    )
    page.figures(
        [
            ("messages", sum(row["messages"] for row in found.queues)),
            ("bytes", sum(row["bytes"] for row in found.queues)),
            ("queues", len(found.queues)),
            ("hot partitions", len(found.hot)),
            ("dead letters", sum(row["letters"] for row in found.failures)),
        ]
    )
    _throughput(page, found.windows, window)
    _sizes(page, found.queues)
    _latencies(page, found.latencies, found.acks)
    _hot(page, found.hot, factor)
    _failures(page, found.failures)
    _lags(page, found.lags)
    return page


def _throughput(page: HtmlPage, windows: Sequence[Row], window: timedelta) -> None:
    page.section(
        "Throughput", f"Messages that were pushed in each window, in the last {MOST_WINDOWS}."
    )
    shown = windows_between([row["begins_at"] for row in windows], window)
    counts = {(row["queue"], row["begins_at"]): row["messages"] for row in windows}
    series = {
        queue: [counts.get((queue, begins_at), 0) for begins_at in shown]
        for queue in dict.fromkeys(row["queue"] for row in windows)
    }
    labels = [cell(begins_at)[5:16] for begins_at in shown]
    page.drawing(columns(labels, series, "messages"))
    page.table(
        ("window", "queue", "messages", "bytes", "partitions", "dead letters", "rate"),
        [
            (
                *(row["begins_at"], row["queue"], row["messages"], row["bytes"]),
                *(row["partitions"], row["letters"], _rate(row)),
            )
            for row in sorted(windows, key=lambda row: row["begins_at"], reverse=True)[:MOST_ROWS]
        ],
    )


def windows_between(begun: Sequence[datetime], window: timedelta) -> list[datetime]:
    """The last windows, also those in which nothing was pushed."""
    if not begun:
        return []
    count = min(MOST_WINDOWS, (max(begun) - min(begun)) // window + 1)
    return [max(begun) - n * window for n in reversed(range(count))]


def _sizes(page: HtmlPage, queues: Sequence[Row]) -> None:
    page.section("Payloads", "Bytes of a payload: the bars are what 95 of 100 do not exceed.")
    page.drawing(bars([(row["queue"], row["p95"], f"{cell(row['p95'])} bytes") for row in queues]))
    names = ("queue", "messages", "bytes", "partitions", "p50", "p95", "p99", "largest")
    page.table(names, [[row[name] for name in names] for row in queues])


def _latencies(page: HtmlPage, latencies: Sequence[Row], acks: Sequence[Row]) -> None:
    page.section(
        "From push to ack",
        "How long messages took that groups acknowledged in the last week, in seconds, give or "
        f"take 2 %. The lines are of the {MOST_GROUPS} slowest groups at most.",
    )
    slowest = sorted(latencies, key=lambda row: row["p99"], reverse=True)
    for group in map(_group, slowest[:MOST_GROUPS]):
        page.drawing(_over_time(group, [row for row in acks if _group(row) == group]))
    names = ("queue", "consumer_group", "messages", "p50", "p95", "p99", "most")
    page.table(
        ("queue", "group", "acknowledged", "p50", "p95", "p99", "longest"),
        [[row[name] for name in names] for row in slowest[:MOST_ROWS]],
    )


def _over_time(group: str, acks: Sequence[Row]) -> str:
    shown = acks[-MOST_WINDOWS:]
    labels = [cell(row["begins_at"])[5:16] for row in shown]
    series = {f"{name} of {group}": [row[name] for row in shown] for name in ("p50", "p99")}
    return lines(labels, series, "seconds")


def _group(row: Row) -> str:
    return f"{row['queue']} / {row['consumer_group']}"


def _hot(page: HtmlPage, hot: Sequence[Row], factor: float) -> None:
    page.section(
        "Hot partitions", f"Those with {factor:g} times the mean of their queue, and more."
    )
    shown = hot[:MOST_ROWS]
    if shown:
        page.drawing(
            bars(
                [
                    (
                        f"{row['queue']} / {row['partition']}",
                        row["skew"],
                        f"{row['skew']:.1f} times",
                    )
                    for row in shown
                ],
                colour=COLOURS[1],
            )
        )
    page.table(
        ("queue", "partition", "messages", "bytes", "share", "times the mean"),
        [
            (
                *(row["queue"], row["partition"], row["messages"], row["bytes"]),
                *(f"{row['share']:.1%}", row["skew"]),
            )
            for row in shown
        ],
    )


def _failures(page: HtmlPage, failures: Sequence[Row]) -> None:
    page.section(
        "Dead letters",
        "What groups gave up on, against the messages that the queue has now; and how old it was "
        "then, in seconds.",
    )
    if failures:
        page.drawing(
            bars(
                [(_group(row), row["letters"], _rate(row)) for row in failures[:MOST_ROWS]],
                colour=RED,
            )
        )
    page.table(
        ("queue", "group", "dead letters", "rate", "age p50", "age p95", "oldest"),
        [
            (
                *(row["queue"], row["consumer_group"], row["letters"], _rate(row)),
                *(row["age_p50"], row["age_p95"], row["age_most"]),
            )
            for row in failures[:MOST_ROWS]
        ],
    )


def _rate(row: Row) -> str:
    return "no messages left" if row["rate"] is None else f"{row['rate']:.2%}"


def _lags(page: HtmlPage, lags: Sequence[Row]) -> None:
    page.section("Consumers", "How far groups are behind.")
    behind = [row for row in lags if row["lag"]][:MOST_ROWS]
    if behind:
        page.drawing(
            bars(
                [(_group(row), row["lag"], cell(row["lag"])) for row in behind],
                colour=COLOURS[4],
            )
        )
    names = ("queue", "consumer_group", "lag", "lag_seconds", "partitions_with_lag", "oldest_at")
    page.table(
        ("queue", "group", "messages behind", "seconds behind", "partitions behind", "oldest"),
        [[row[name] for name in names] for row in lags[:MOST_ROWS]],
    )
