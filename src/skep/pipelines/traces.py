"""``traces``: journeys through queues, as files and as findings for a page."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from skep.pipelines.pages.traces import TraceReport
from skep.pipelines.source import Source
from skep.pipelines.steps import traces as steps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOWN = 50


def follow(
    spark: "SparkSession",
    source: Source,
    to: str,
    *,
    final: Sequence[str] | None,
    within_seconds: float,
    now: datetime,
) -> TraceReport:
    """Follow messages by their trace ids to the final queues, or to where no journey goes on."""
    steps.steps(source.read(spark, steps.SCHEMA)).write.mode("overwrite").parquet(f"{to}/steps")
    walked = spark.read.parquet(f"{to}/steps")
    edges = steps.edges(walked)
    ends = sorted(final) if final else steps.final_queues(edges)
    letters = source.view(spark, "dead-letters").where("trace_id IS NOT NULL")
    found = steps.with_errors(steps.journeys(walked, ends, within_seconds, now), letters)
    found.write.mode("overwrite").parquet(f"{to}/journeys")
    journeys = spark.read.parquet(f"{to}/journeys")
    edges.write.mode("overwrite").parquet(f"{to}/edges")
    stuck = journeys.where("state = 'stuck'").orderBy("begun_at", "trace_id")
    return TraceReport(
        edges=[row.asDict() for row in edges.collect()],
        endings=[row.asDict() for row in steps.endings(journeys).collect()],
        stops={row.queue: row.journeys for row in steps.visited(walked).collect()},
        stuck=[row.asDict() for row in stuck.limit(SHOWN).collect()],
        final=ends,
    )
