"""Messages on their way back into queues."""

from typing import TYPE_CHECKING

from pyspark.sql import Window, functions as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def with_new_ids(messages: "DataFrame") -> "DataFrame":
    """Without their transaction ids: the server gives new ones, so none is known already."""
    return messages.drop("transaction_id")


def in_partitions(messages: "DataFrame") -> "DataFrame":
    """Each partition in one task, and in it in its order."""
    spread = messages.repartition("queue", "partition")
    return spread.sortWithinPartitions("queue", "partition", "offset")


def sliced(messages: "DataFrame", size: int) -> "DataFrame":
    """With the number of the slice that each is in, in the order in which they were pushed.

    It is counted in one task. That is quicker than any rate for which it is done.
    """
    order = Window.orderBy("created_at", "queue", "partition", "offset")
    number = f.row_number().over(order).cast("bigint") - 1
    return messages.withColumn("slice", f.floor(number / size))


def counted(messages: "DataFrame") -> "DataFrame":
    """How many messages there are of each queue, in how many partitions, and from when."""
    return (
        messages.groupBy("queue")
        .agg(
            f.countDistinct("partition").alias("partitions"),
            f.count("*").alias("messages"),
            f.min("created_at").alias("first_at"),
            f.max("created_at").alias("last_at"),
        )
        .orderBy("queue")
    )
