"""``archive``: queues as Parquet files, each message in them once.

Below the directory there is one for each queue and day, ``queue=orders/date=2026-01-31``. Within
a file messages are sorted by partition and offset.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from skep.pipelines.source import Source
from skep.pipelines.steps.archive import dated, in_order

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

SCHEMA = (
    "partition STRING, offset BIGINT, message_id STRING, transaction_id STRING, trace_id STRING, "
    "producer STRING, created_at TIMESTAMP, payload BINARY, queue STRING, date DATE"
)
_CHECK = "spark.sql.streaming.unsupportedOperationCheck"


def read_archive(spark: "SparkSession", path: str) -> "DataFrame":
    """The messages of an archive, with the columns of a queue."""
    # A queue that is called 2026 would be read as a number.
    return spark.read.schema(SCHEMA).parquet(path).drop("date")


def archiving(spark: "SparkSession", source: Source, path: str, group: str) -> "DataStreamWriter":
    """A stream from queues to files; how often it writes and where it keeps its place is open."""
    messages = source.stream(spark, group, payloadFormat="binary", preserveOrder="true")
    return (
        in_order(dated(messages))
        .writeStream.format("parquet")
        .partitionBy("queue", "date")
        .options(path=path, compression="zstd")
    )


@contextmanager
def sorting(spark: "SparkSession") -> Iterator[None]:
    """Let streams start that sort.

    Spark refuses every sort of a stream, because the order of all that will ever come has no
    end. This one is only about the rows of a task, and needs none.
    """
    before = spark.conf.get(_CHECK)
    spark.conf.set(_CHECK, "false")
    try:
        yield
    finally:
        spark.conf.set(_CHECK, before or "true")
