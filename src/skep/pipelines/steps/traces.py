"""Messages of one trace id as a journey through queues."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from pyspark.sql import Window, functions as f

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SCHEMA = "queue STRING, partition STRING, offset BIGINT, trace_id STRING, created_at TIMESTAMP"
"""What is needed of messages: their payloads are not."""
ACCURACY = 10_000
_QUANTILES = (0.5, 0.95, 0.99)


def steps(messages: "DataFrame") -> "DataFrame":
    """Messages with a trace id, each with the step before it, and the seconds in between.

    Two that were pushed in the same instant stand in the order of their queues' names.
    """
    order = Window.partitionBy("trace_id").orderBy("created_at", "queue", "partition", "offset")
    seconds = f.col("created_at").cast("double")
    return messages.where("trace_id IS NOT NULL").select(
        "trace_id",
        "queue",
        "partition",
        "offset",
        "created_at",
        f.row_number().over(order).alias("step"),
        f.lag("queue").over(order).alias("from_queue"),
        (seconds - f.lag(seconds).over(order)).alias("seconds"),
    )


def edges(steps: "DataFrame") -> "DataFrame":
    """From which queue to which journeys go, how many, and how long they take."""
    quantile = f.percentile_approx("seconds", list(_QUANTILES), ACCURACY)
    return (
        steps.where("from_queue IS NOT NULL")
        .groupBy("from_queue", f.col("queue").alias("to_queue"))
        .agg(
            f.count("*").alias("steps"),
            quantile.alias("quantiles"),
            f.max("seconds").alias("slowest"),
        )
        .select(
            "from_queue",
            "to_queue",
            "steps",
            *(
                f.col("quantiles")[index].alias(f"p{round(100 * each)}")
                for index, each in enumerate(_QUANTILES)
            ),
            "slowest",
        )
        .orderBy(f.desc("steps"), "from_queue", "to_queue")
    )


def final_queues(edges: "DataFrame") -> list[str]:
    """Queues from which no journey goes on."""
    left = edges.select("from_queue").distinct()
    ends = edges.select(f.col("to_queue").alias("from_queue")).distinct().subtract(left)
    return sorted(row.from_queue for row in ends.collect())


def journeys(
    steps: "DataFrame", final: Sequence[str], within_seconds: float, now: datetime
) -> "DataFrame":
    """A row for each trace id: its path, and whether it is ``complete``.

    One that has reached no final queue is ``stuck`` when it began longer ago than it may take,
    and ``under way`` before that.
    """
    path = f.transform(
        f.array_sort(f.collect_list(f.struct("step", "queue"))), lambda step: step["queue"]
    )
    return (
        steps.groupBy("trace_id")
        .agg(
            f.min("created_at").alias("begun_at"),
            f.max("created_at").alias("last_at"),
            f.count("*").cast("int").alias("steps"),
            path.alias("path"),
            f.max_by("queue", "step").alias("last_queue"),
            f.max_by("partition", "step").alias("last_partition"),
            f.bool_or(f.col("queue").isin(list(final))).alias("arrived"),
        )
        .withColumn("seconds", f.expr("CAST(last_at AS DOUBLE) - CAST(begun_at AS DOUBLE)"))
        .withColumn("state", _state(within_seconds, now))
        .drop("arrived")
    )


def _state(within_seconds: float, now: datetime) -> "Column":
    age = f.lit(now.timestamp()) - f.col("begun_at").cast("double")
    stuck = f.when(age >= within_seconds, "stuck").otherwise("under way")
    return f.when(f.col("arrived"), "complete").otherwise(stuck)


def with_errors(journeys: "DataFrame", letters: "DataFrame") -> "DataFrame":
    """With the newest error of a dead letter on the way, if there is one."""
    newest = letters.groupBy("trace_id").agg(f.max_by("error", "failed_at").alias("error"))
    return journeys.join(newest, "trace_id", "left")


def endings(journeys: "DataFrame") -> "DataFrame":
    """How many journeys ended where, and how."""
    return (
        journeys.groupBy("state", "last_queue")
        .agg(
            f.count("*").alias("journeys"),
            f.count("error").alias("with_error"),
            f.min("begun_at").alias("oldest_at"),
            f.max("seconds").alias("longest"),
        )
        .orderBy("state", f.desc("journeys"))
    )


def visited(steps: "DataFrame") -> "DataFrame":
    """How many journeys came to each queue."""
    journeys = f.countDistinct("trace_id").alias("journeys")
    return steps.groupBy("queue").agg(journeys).orderBy(f.desc("journeys"), "queue")
