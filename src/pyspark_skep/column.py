"""The columns of messages and views, and their types in Spark and Arrow."""

# pyarrow may be missing, see arrow.py.
from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pyspark.sql.types import (
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyspark_skep.arrow import pa
from pyspark_skep.errors import InvalidColumns
from pyspark_skep.options import Options, to_camel


@dataclass(frozen=True)
class SourceColumn:
    name: str
    kind: str = "string"
    json_path: str = ""
    """Where a view reads the value in the server's JSON: keys, with dots between them."""
    nullable: bool = True


_SPARK_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "long": LongType(),
    "double": DoubleType(),
    "timestamp": TimestampType(),
}

MESSAGE_COLUMNS = (
    SourceColumn("queue"),
    SourceColumn("partition"),
    SourceColumn("offset", "long"),
    SourceColumn("message_id"),
    SourceColumn("transaction_id"),
    SourceColumn("trace_id"),
    SourceColumn("producer"),
    SourceColumn("created_at", "timestamp"),
    SourceColumn("payload"),
)
JOURNAL_COLUMNS = (SourceColumn("lane", "int"), SourceColumn("position", "long"))
"""The position of a message in the journal; read only if a schema names them."""


def _counts(prefix: str = "") -> tuple[SourceColumn, ...]:
    names = ("total", "pending", "processing", "completed", "failed", "dead_letter")
    return tuple(SourceColumn(name, "long", f"{prefix}{to_camel(name)}") for name in names)


VIEW_COLUMNS = {
    "dead-letters": (
        SourceColumn("queue", json_path="queue"),
        SourceColumn("partition", json_path="partition"),
        SourceColumn("offset", "long", "offset"),
        SourceColumn("message_id", json_path="id"),
        SourceColumn("transaction_id", json_path="transactionId"),
        SourceColumn("trace_id", json_path="traceId"),
        SourceColumn("producer", json_path="producerSub"),
        SourceColumn("created_at", "timestamp", "createdAt"),
        SourceColumn("payload", json_path="data"),
        SourceColumn("number", "long", "number"),
        SourceColumn("consumer_group", json_path="consumerGroup"),
        SourceColumn("error", json_path="errorMessage"),
        SourceColumn("attempts", "long", "attempts"),
        SourceColumn("failed_at", "timestamp", "failedAt"),
    ),
    "consumers": (
        SourceColumn("consumer_group", json_path="name"),
        SourceColumn("queue", json_path="queueName"),
        SourceColumn("members", "long", "members"),
        SourceColumn("partitions", "long", "partitions"),
        SourceColumn("leased_partitions", "long", "leasedPartitions"),
        SourceColumn("partitions_with_lag", "long", "partitionsWithLag"),
        SourceColumn("lag", "long", "totalLag"),
        SourceColumn("lag_seconds", "double", "maxTimeLag"),
        SourceColumn("oldest_at", "timestamp", "oldestAt"),
    ),
    "partitions": (
        SourceColumn("queue", json_path="queue"),
        SourceColumn("partition", json_path="name"),
        SourceColumn("partition_id", json_path="id"),
        *_counts(),
        SourceColumn("created_at", "timestamp", "createdAt"),
        SourceColumn("oldest_at", "timestamp", "oldestMessage"),
        SourceColumn("newest_at", "timestamp", "newestMessage"),
    ),
    "stats": (
        SourceColumn("queue", json_path="name"),
        SourceColumn("namespace", json_path="namespace"),
        SourceColumn("task", json_path="task"),
        SourceColumn("partitions", "long", "partitions"),
        SourceColumn("groups", "long", "groups"),
        *_counts("messages."),
        SourceColumn("consumed", "long", "consumed"),
        SourceColumn("created_at", "timestamp", "createdAt"),
    ),
    "latencies": (
        SourceColumn("queue", json_path="queue"),
        SourceColumn("consumer_group", json_path="consumerGroup"),
        SourceColumn("begins_at", "timestamp", "beginsAt"),
        SourceColumn("seconds", "double", "seconds"),
        SourceColumn("messages", "long", "messages"),
    ),
}


def columns_of(options: Options) -> tuple[SourceColumn, ...]:
    """Return the columns of the view that the options name."""
    columns = MESSAGE_COLUMNS if options.view == "messages" else VIEW_COLUMNS[options.view]
    if options.payload_format == "text":
        return columns
    return tuple(
        replace(column, kind="binary") if column.name == "payload" else column for column in columns
    )


def to_schema(columns: Iterable[SourceColumn]) -> StructType:
    return StructType([StructField(column.name, _SPARK_TYPES[column.kind]) for column in columns])


def to_arrow(columns: Iterable[SourceColumn]) -> pa.Schema:
    """Return the exact types that Spark expects; it checks only the first batch of a task."""
    types = {
        "string": pa.string(),
        "binary": pa.binary(),
        "int": pa.int32(),
        "long": pa.int64(),
        "double": pa.float64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }
    return pa.schema(
        [pa.field(column.name, types[column.kind], column.nullable) for column in columns]
    )


def project(options: Options, schema: StructType) -> tuple[SourceColumn, ...]:
    """Return the columns of a schema; a user's schema may have fewer, in another order."""
    available = {column.name: column for column in columns_of(options)}
    if options.view == "messages":
        available |= {column.name: column for column in JOURNAL_COLUMNS}
    return tuple(_select(available, wanted) for wanted in schema.fields)


def _select(available: Mapping[str, SourceColumn], wanted: StructField) -> SourceColumn:
    column = available.get(wanted.name)
    if column is None:
        raise InvalidColumns(f"unknown column {wanted.name!r}; available: {', '.join(available)}")
    type_ = _SPARK_TYPES[column.kind]
    if wanted.dataType != type_:
        hint = "; see the option payloadFormat" if column.name == "payload" else ""
        raise InvalidColumns(f"column {column.name!r} must be {type_.simpleString()}{hint}")
    return replace(column, nullable=wanted.nullable)
