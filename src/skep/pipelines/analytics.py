"""``analytics``: queues in numbers, as files and as findings for a page."""

from typing import TYPE_CHECKING, Any

from skep.pipelines.pages.analytics import AnalyticsReport
from skep.pipelines.source import Source
from skep.pipelines.steps import analytics as steps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def measure(
    spark: "SparkSession", source: Source, to: str, *, window: str, factor: float
) -> AnalyticsReport:
    """Measure queues in windows. A partition with ``factor`` times the mean of its queue is hot."""
    messages = source.read(spark, steps.SCHEMA, payloadFormat="binary")
    letters = source.view(spark, "dead-letters")
    # Messages are read once; all else is found from what this leaves of them.
    found = steps.with_letters(steps.measured(messages, window), letters, window)
    found.write.mode("overwrite").parquet(f"{to}/measured")
    measured = spark.read.parquet(f"{to}/measured")
    acked = steps.acked(source.view(spark, "latencies"), window)
    acked.write.mode("overwrite").parquet(f"{to}/latencies")
    acked = spark.read.parquet(f"{to}/latencies")
    queues = steps.per_queue(measured)
    failures = steps.failures(letters, queues)
    lags = steps.lags(source.view(spark, "consumers"))
    return AnalyticsReport(
        windows=_rows(steps.per_window(measured)),
        queues=_rows(queues),
        hot=_rows(steps.hot(steps.partitions(measured), factor)),
        acks=_rows(steps.acks(acked)),
        latencies=_rows(steps.latencies(acked)),
        failures=_kept(spark, failures, f"{to}/failures"),
        lags=_kept(spark, lags, f"{to}/lags"),
    )


def _rows(frame: "DataFrame") -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


def _kept(spark: "SparkSession", frame: "DataFrame", path: str) -> list[dict[str, Any]]:
    """What is written is what is shown: the server knows other numbers a moment later."""
    rows = frame.collect()
    spark.createDataFrame(rows, frame.schema).write.mode("overwrite").parquet(path)
    return [row.asDict() for row in rows]
