"""``replay``: an archive, or a part of a queue, back into queues, each message once."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic, sleep
from typing import TYPE_CHECKING, TypeVar

from pyspark.errors import AnalysisException
from pyspark.sql import Observation, functions as f

from skep.pipelines.steps.replay import in_partitions, sliced

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Piece = TypeVar("Piece")

SLICE_SECONDS = 5
"""How much is sent at once where there is a rate: Spark takes half a second for whatever it is."""
COLUMNS = ("queue", "partition", "transaction_id", "trace_id", "payload")


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
