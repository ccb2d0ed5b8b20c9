"""``replay``: an archive, or a part of a queue, back into queues, each message once."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic, sleep
from typing import TYPE_CHECKING, TypeVar

from pyspark.errors import AnalysisException
from pyspark.sql import Observation, Window, functions as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Piece = TypeVar("Piece")

SLICE_SECONDS = 5
"""How much is sent at once where there is a rate: Spark takes half a second for whatever it is."""
COLUMNS = ("queue", "partition", "transaction_id", "trace_id", "payload")


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


@dataclass(frozen=True, slots=True)
class Target:
    """Where messages go, and under which name they go there once."""

    options: dict[str, str]
    name: str

    def send(self, messages: "DataFrame", version: int) -> int:
        """Publish all of these or none, and none if this version was published before."""
        sent = Observation()
        known = [name for name in COLUMNS if name in messages.columns]
        rows = in_partitions(messages).select(*known)
        writer = rows.observe(sent, f.count("*").alias("messages")).write.format("skep")
        writer = writer.mode("append").options(**self.options)
        writer.options(txnAppId=self.name, txnVersion=version).save()
        return int(sent.get["messages"])


def slices(spark: "SparkSession", messages: "DataFrame", size: int, path: str) -> "list[DataFrame]":
    """The messages in slices, kept below a path: the same ones whenever this is asked again."""
    count = _planned(spark, path)
    if count is None:
        sliced(messages, size).write.mode("overwrite").partitionBy("slice").parquet(
            f"{path}/slices"
        )
        kept = spark.read.schema("slice BIGINT").parquet(f"{path}/slices")
        count = kept.distinct().count()
        # Only a plan that is complete has this beside it.
        spark.range(count, count + 1).write.mode("overwrite").parquet(f"{path}/count")
    if not count:
        return []
    kept = spark.read.parquet(f"{path}/slices")
    return [kept.where(f.col("slice") == number) for number in range(count)]


def _planned(spark: "SparkSession", path: str) -> int | None:
    try:
        row = spark.read.schema("id BIGINT").parquet(f"{path}/count").first()
    except AnalysisException:
        return None
    return int(row.id) if row else None


def paced(
    pieces: Sequence[Piece],
    first: int,
    *,
    clock: Callable[[], float] = monotonic,
    wait: Callable[[float], None] = sleep,
) -> Iterator[tuple[int, Piece]]:
    """The pieces from the first on with their numbers, each not before its time."""
    begin = clock()
    for number in range(first, len(pieces)):
        due = begin + (number - first) * SLICE_SECONDS
        if due > clock():
            wait(due - clock())
        yield number, pieces[number]
