"""``transform``: from queues to a queue or to files, by a statement in SQL or a function."""

import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pyspark import cloudpickle
from pyspark.sql import functions as f

from skep.errors import Invalid

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Frames: TypeAlias = "Mapping[str, DataFrame]"
Step: TypeAlias = "Callable[..., DataFrame]"

INFER, VARIANT = "infer", "variant"
_SAMPLE = 10_000
_WRITTEN = ("partition", "transaction_id", "trace_id")


def with_data(messages: "DataFrame", schema: str | None) -> "DataFrame":
    """With the payload as a column ``data``: by a schema in DDL, or as a ``VARIANT``.

    What is not such JSON is NULL there, and still in ``payload``.
    """
    if schema is None:
        return messages
    if schema.lower() == VARIANT:
        return messages.withColumn("data", f.try_parse_json("payload"))
    return messages.withColumn("data", f.from_json("payload", schema))


def inferred(messages: "DataFrame") -> str:
    """A schema in DDL for the payloads of the messages, by looking at some thousands of them."""
    some = messages.select(f.try_parse_json("payload").alias("data")).limit(_SAMPLE)
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


def by_sql(spark: "SparkSession", statement: str, frames: Frames) -> "DataFrame":
    """The result of a statement in which each queue is a view with its name."""
    for name, frame in frames.items():
        frame.createOrReplaceTempView(f"`{name.replace('`', '``')}`")
    return spark.sql(statement)


def load_step(place: str) -> Step:
    """The function that ``module:function`` names; modules are looked for here, too."""
    name, _, attribute = place.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = import_module(name)
        found: Step = getattr(module, attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise Invalid("function", f"must be module:function; {place!r}: {error}") from None
    # Workers do not look here, and those on other machines could not.
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return found


def to_messages(frame: "DataFrame") -> "DataFrame":
    """What a queue can take: rows without a payload become JSON, but for where they go."""
    if "payload" in frame.columns:
        return frame.drop("data")
    where = [name for name in _WRITTEN if name in frame.columns]
    rest = [name for name in frame.columns if name not in where]
    if not rest:
        raise Invalid("sql", "must give a column payload, or others to make one of")
    return frame.select(*where, f.to_json(f.struct(*rest)).alias("payload"))
