"""Queues in numbers, per partition and window of time.

What is kept can be merged: counts are sums, and sizes are sketches (KLL), from which quantiles of
any set of windows and partitions can be had without reading a message again. Latencies are counts
of messages by seconds, and so are sums too.
"""

from typing import TYPE_CHECKING

from pyspark.sql import Window, functions as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCHEMA = "queue STRING, partition STRING, created_at TIMESTAMP, payload BINARY"
_QUANTILES = "array(0.5D, 0.95D, 0.99D)"


def measured(messages: "DataFrame", window: str) -> "DataFrame":
    """Messages of each queue, partition and window: how many, how large."""
    return (
        messages.withColumn("size", f.octet_length("payload").cast("bigint"))
        .groupBy("queue", "partition", f.window("created_at", window).alias("window"))
        .agg(
            f.count("*").alias("messages"),
            f.sum("size").alias("bytes"),
            f.max("size").alias("largest"),
            f.expr("kll_sketch_agg_bigint(size)").alias("sizes"),
        )
        .select("queue", "partition", f.col("window.start").alias("begins_at"), *_MEASURES)
    )


_MEASURES = ("messages", "bytes", "largest", "sizes")


def with_letters(measured: "DataFrame", letters: "DataFrame", window: str) -> "DataFrame":
    """With how many of these messages some group gave up on."""
    by = ("queue", "partition", "begins_at")
    begins_at = f.window("created_at", window)["start"].alias("begins_at")
    counted = letters.groupBy("queue", "partition", begins_at).agg(f.count("*").alias("letters"))
    return measured.join(counted, [*by], "left").fillna(0, ["letters"])


def per_window(measured: "DataFrame") -> "DataFrame":
    """Of all partitions together."""
    return _merged(measured, "queue", "begins_at").orderBy("queue", "begins_at")


def per_queue(measured: "DataFrame") -> "DataFrame":
    """Of all partitions and windows together."""
    return _merged(measured, "queue").orderBy("queue")


def _merged(measured: "DataFrame", *by: str) -> "DataFrame":
    quantile = f"kll_sketch_get_quantile_bigint(sizes, {_QUANTILES})"
    return (
        measured.groupBy(*by)
        .agg(
            f.countDistinct("partition").alias("partitions"),
            f.sum("messages").alias("messages"),
            f.sum("bytes").alias("bytes"),
            f.max("largest").alias("largest"),
            f.sum("letters").alias("letters"),
            f.expr("kll_merge_agg_bigint(sizes)").alias("sizes"),
        )
        .withColumn("quantiles", f.expr(quantile))
        .selectExpr(
            *by,
            "partitions",
            "messages",
            "bytes",
            "quantiles[0] AS p50",
            "quantiles[1] AS p95",
            "quantiles[2] AS p99",
            "largest",
            "letters",
            "letters / messages AS rate",
        )
    )


def partitions(measured: "DataFrame") -> "DataFrame":
    """Of all windows together; ``skew`` is how many times the mean of its queue a partition has."""
    queue = Window.partitionBy("queue")
    return (
        measured.groupBy("queue", "partition")
        .agg(f.sum("messages").alias("messages"), f.sum("bytes").alias("bytes"))
        .withColumn("share", f.col("messages") / f.sum("messages").over(queue))
        .withColumn("skew", f.col("messages") / f.avg("messages").over(queue))
        .orderBy(f.desc("skew"), "queue", "partition")
    )


def hot(partitions: "DataFrame", factor: float) -> "DataFrame":
    """Partitions with so many times the mean of their queue."""
    return partitions.where(f.col("skew") >= factor)


def failures(letters: "DataFrame", queues: "DataFrame") -> "DataFrame":
    """Dead letters of each queue and group, against the messages that the queue has.

    The ages are from the push of a message to the moment at which it was given up.
    """
    age = f.expr("CAST(failed_at AS DOUBLE) - CAST(created_at AS DOUBLE)")
    return (
        letters.withColumn("age", age)
        .groupBy("queue", "consumer_group")
        .agg(
            f.count("*").alias("letters"),
            f.percentile_approx("age", [0.5, 0.95]).alias("ages"),
            f.max("age").alias("oldest"),
        )
        .join(queues.select("queue", "messages"), "queue", "left")
        .selectExpr(
            "queue",
            "consumer_group",
            "letters",
            "letters / messages AS rate",
            "ages[0] AS age_p50",
            "ages[1] AS age_p95",
            "oldest AS age_most",
        )
        .orderBy(f.desc("letters"), "queue", "consumer_group")
    )


def acked(latencies: "DataFrame", window: str) -> "DataFrame":
    """How many messages a group acknowledged in each window, by the seconds since their push.

    They are known by the minute: a window that is shorter has all of the minute it begins with.
    """
    begins_at = f.window("begins_at", window)["start"].alias("begins_at")
    return latencies.groupBy("queue", "consumer_group", begins_at, "seconds").agg(
        f.sum("messages").alias("messages")
    )


def acks(acked: "DataFrame") -> "DataFrame":
    """Of each queue, group and window: how many messages, and how long they took."""
    return _timed(acked, "queue", "consumer_group", "begins_at")


def latencies(acked: "DataFrame") -> "DataFrame":
    """Of all windows together."""
    return _timed(acked, "queue", "consumer_group")


def _timed(acked: "DataFrame", *by: str) -> "DataFrame":
    """A quantile is where the sum of the counts, from the shortest on, reaches its share."""
    whole = Window.partitionBy(*by)
    return (
        acked.groupBy(*by, "seconds")
        .agg(f.sum("messages").alias("messages"))
        .withColumn("reached", f.sum("messages").over(whole.orderBy("seconds")))
        .withColumn("share", f.col("reached") / f.sum("messages").over(whole))
        .groupBy(*by)
        .agg(
            f.sum("messages").alias("messages"),
            f.expr("min(seconds) FILTER (WHERE share >= 0.5D)").alias("p50"),
            f.expr("min(seconds) FILTER (WHERE share >= 0.95D)").alias("p95"),
            f.expr("min(seconds) FILTER (WHERE share >= 0.99D)").alias("p99"),
            f.max("seconds").alias("most"),
        )
        .orderBy(*by)
    )


def lags(consumers: "DataFrame") -> "DataFrame":
    """How far groups are behind, the latest first."""
    shown = ("queue", "consumer_group", "lag", "lag_seconds", "partitions_with_lag", "oldest_at")
    return consumers.select(*shown).orderBy(
        f.desc_nulls_last("lag_seconds"), "queue", "consumer_group"
    )
