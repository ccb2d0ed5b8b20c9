"""Payloads as columns, and columns as payloads."""

import re
from typing import TYPE_CHECKING

from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType

from skep.errors import Invalid

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

VARIANT = "variant"
_SAMPLE = 10_000
_WRITTEN = ("partition", "transaction_id", "trace_id")


def with_data(messages: "DataFrame", schema: str | None) -> "DataFrame":
    """With the payload as a column ``data``: by a schema in DDL, or as a ``VARIANT``.

    What is not such JSON is NULL there, and still in ``payload``.
    """
    if schema is None:
        return messages
    if schema.lower() == VARIANT:
        return messages.withColumn("data", f.try_parse_json(_text(messages)))
    return messages.withColumn("data", f.from_json(_text(messages), schema))


def _text(messages: "DataFrame") -> "Column":
    """The payload as a string, whatever its column is; NULL where it is no text."""
    payload = f.col("payload")
    if isinstance(messages.schema["payload"].dataType, BinaryType):
        return f.try_validate_utf8(payload.cast("string"))
    return payload


def inferred(messages: "DataFrame") -> str:
    """A schema in DDL for the payloads of the messages, by looking at some thousands of them."""
    some = messages.select(f.try_parse_json(_text(messages)).alias("data")).limit(_SAMPLE)
    row = some.agg(f.expr("schema_of_variant_agg(data)").alias("schema")).first()
    found = str(row.schema) if row else ""
    if not found.startswith("OBJECT<"):
        raise Invalid(
            "schema", f"cannot be inferred: payloads are {found or 'missing'}, no objects"
        )
    return to_ddl(found)


def to_ddl(shape: str) -> str:
    """The shape of a VARIANT as a schema that later payloads will fit as well."""
    # 1.50 is no sign that all have two digits behind the point.
    wide = re.sub(r"DECIMAL\(\d+,\s*\d+\)", "DOUBLE", shape)
    return re.sub(r"\bVOID\b", "STRING", wide).replace("OBJECT<", "STRUCT<")


def to_messages(frame: "DataFrame") -> "DataFrame":
    """What a queue can take: rows without a payload become JSON, but for where they go."""
    if "payload" in frame.columns:
        return frame.drop("data")
    where = [name for name in _WRITTEN if name in frame.columns]
    rest = [name for name in frame.columns if name not in where]
    if not rest:
        raise Invalid("sql", "must give a column payload, or others to make one of")
    return frame.select(*where, f.to_json(f.struct(*rest)).alias("payload"))
