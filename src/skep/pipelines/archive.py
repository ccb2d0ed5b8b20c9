"""``archive``: queues as Parquet files, each message in them once.

Below the directory there is one for each queue and day, ``queue=orders/date=2026-01-31``. Within
a file messages are sorted by partition and offset.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from pyspark.sql import functions as f

from skep.model.journal import Position
from skep.pipelines.source import Source
from skep.pipelines.steps.archive import dated, in_order, ranges

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

SCHEMA = (
    "partition STRING, offset BIGINT, message_id STRING, transaction_id STRING, trace_id STRING, "
    "producer STRING, created_at TIMESTAMP, payload BINARY, queue STRING, date DATE"
)
_ADDRESS = "queue STRING, partition STRING, offset BIGINT, message_id STRING, created_at TIMESTAMP"
_CHECK = "spark.sql.streaming.unsupportedOperationCheck"


class Gap(NamedTuple):
    """Messages of a partition that an archive does not have, from the first to the last."""

    queue: str
    partition: str
    first: int
    last: int


def read_archive(spark: "SparkSession", path: str) -> "DataFrame":
    """The messages of an archive, with the columns of a queue."""
    # A queue that is called 2026 would be read as a number.
    return spark.read.schema(SCHEMA).parquet(path).drop("date")


def archiving(spark: "SparkSession", source: Source, path: str, group: str) -> "DataStreamWriter":
    """A stream from queues to files; how often it writes and where it keeps its place is open."""
    # Its group stands where the archive was read back, and is moved by who has read it.
    messages = source.stream(
        spark, group, payloadFormat="binary", preserveOrder="true", commitCursor="false"
    )
    return (
        in_order(dated(messages))
        .writeStream.format("parquet")
        .partitionBy("queue", "date")
        .options(path=path, compression="zstd")
    )


def missing_from(
    spark: "SparkSession", source: Source, path: str, start: Position | None, end: Position
) -> list[Gap]:
    """What queues have between two positions and an archive does not, read back from its files.

    Without a start it is all that they have before the end. Only the days are read of which the
    messages are, and of them no payloads.
    """
    between = {"endingOffsets": _text(end), "failOnDataLoss": "false"}
    if start is not None:
        between["startingOffsets"] = _text(start)
    kept = dated(source.read(spark, _ADDRESS, **between)).cache()
    try:
        days = kept.agg(f.min("date").alias("first"), f.max("date").alias("last")).first()
        if days is None or days.first is None:
            return []
        held = _held(spark, path).where(f.col("date").between(days["first"], days["last"]))
        held = held.select("queue", "message_id")
        rows = ranges(kept.join(held, ["queue", "message_id"], "left_anti")).collect()
        return [Gap(*row) for row in rows]
    finally:
        kept.unpersist()


def _held(spark: "SparkSession", path: str) -> "DataFrame":
    """An archive without the files of it that are gone or cannot be read."""
    reader = spark.read.schema(SCHEMA)
    return reader.options(ignoreMissingFiles="true", ignoreCorruptFiles="true").parquet(path)


def _text(position: Position) -> str:
    return msgspec.json.encode(position).decode()


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
