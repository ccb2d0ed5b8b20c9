"""What an archive has beside what a queue has: days, and an order within files."""

from typing import TYPE_CHECKING

from pyspark.sql import Window, functions as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def dated(messages: "DataFrame") -> "DataFrame":
    """With the day of each message, in UTC whatever the session's own zone is."""
    days = f.expr("CAST(floor(unix_seconds(created_at) / 86400) AS INT)")
    return messages.withColumn("date", f.date_add(f.lit("1970-01-01").cast("date"), days))


def in_order(messages: "DataFrame") -> "DataFrame":
    """Sorted within each task as files have it: the writer then need not sort again."""
    return messages.sortWithinPartitions("queue", "date", "partition", "offset")


def ranges(messages: "DataFrame") -> "DataFrame":
    """The offsets of messages as ranges without gaps, in order."""
    partition = ("queue", "partition")
    number = f.row_number().over(Window.partitionBy(*partition).orderBy("offset"))
    return (
        messages.withColumn("range", f.col("offset") - number)
        .groupBy(*partition, "range")
        .agg(f.min("offset").alias("first"), f.max("offset").alias("last"))
        .select(*partition, "first", "last")
        .orderBy(*partition, "first")
    )
