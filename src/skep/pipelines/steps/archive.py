"""What an archive has beside what a queue has: days, and an order within files."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def dated(messages: "DataFrame") -> "DataFrame":
    """With the day of each message, in UTC whatever the session's own zone is."""
    days = f.expr("CAST(floor(unix_seconds(created_at) / 86400) AS INT)")
    return messages.withColumn("date", f.date_add(f.lit("1970-01-01").cast("date"), days))


def in_order(messages: "DataFrame") -> "DataFrame":
    """Sorted within each task as files have it: the writer then need not sort again."""
    return messages.sortWithinPartitions("queue", "date", "partition", "offset")
