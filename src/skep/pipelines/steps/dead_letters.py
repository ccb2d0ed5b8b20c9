"""What is wrong with what groups gave up on, in classes instead of in texts."""

from typing import TYPE_CHECKING

from pyspark.sql import Window, functions as f

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# In this order: an id would otherwise be some numbers, and what is quoted could be anything.
_PARTS = (
    (r"(?i)\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<id>"),
    (r"(?<!\w)'[^']*'(?!\w)", "<text>"),
    (r'"[^"]*"', "<text>"),
    (r"(?i)\b0x[0-9a-f]+\b", "<id>"),
    (r"(?i)\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b", "<id>"),
    (r"\d+([.,:/T-]\d+)*", "<n>"),
    (r"\s+", " "),
)
LONGEST = 200


def error_class(error: "Column") -> "Column":
    """What errors have in common: without their numbers, ids and what they quote."""
    for pattern, word in _PARTS:
        error = f.regexp_replace(error, pattern, word)
    return f.substring(f.trim(error), 1, LONGEST)


def classified(letters: "DataFrame") -> "DataFrame":
    """With the class of each error."""
    return letters.withColumn("error_class", error_class(f.coalesce("error", f.lit(""))))


def causes(letters: "DataFrame") -> "DataFrame":
    """Classes of errors in each queue, the most frequent first."""
    share = f.col("letters") / f.sum("letters").over(Window.partitionBy())
    return (
        letters.groupBy("queue", "error_class")
        .agg(
            f.count("*").alias("letters"),
            f.array_sort(f.collect_set("consumer_group")).alias("groups"),
            f.countDistinct("partition").alias("partitions"),
            f.max("attempts").alias("most_attempts"),
            f.min("failed_at").alias("first_at"),
            f.max("failed_at").alias("last_at"),
            f.min_by("error", "number").alias("example"),
        )
        .withColumn("share", share)
        .orderBy(f.desc("letters"), "queue", "error_class")
    )


def affected(letters: "DataFrame") -> "DataFrame":
    """Partitions with dead letters, those with the most first."""
    return (
        letters.groupBy("queue", "partition")
        .agg(
            f.count("*").alias("letters"),
            f.countDistinct("error_class").alias("classes"),
            f.min("failed_at").alias("oldest_at"),
        )
        .orderBy(f.desc("letters"), "queue", "partition")
    )


def chosen(letters: "DataFrame", error_class: str | None, where: str | None) -> "DataFrame":
    """Those of a class, and those for which an expression in SQL holds."""
    if error_class is not None:
        letters = letters.where(f.col("error_class") == error_class)
    return letters.where(where) if where else letters
