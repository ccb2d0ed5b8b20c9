"""The options of a table in Spark's catalog, kept in the metadata of its column ``queue``.

Spark passes them to the source only when the table is created, but keeps the schema unchanged.
A DataFrame whose column ``queue`` was replaced no longer has them.
"""

from collections.abc import Mapping

from pyspark.sql.types import StructField, StructType

from pyspark_skep.errors import InvalidOption
from pyspark_skep.options import FIELDS

_KEY = "skep"


def with_table_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return the schema with the table's options; raise ``InvalidOption`` if one is a token."""
    kept = {key.lower(): text for key, text in options.items() if key.lower() in FIELDS}
    if "token" in kept:
        reason = "must not be stored in a catalog, where it can be read: use tokenFile or tokenEnv"
        raise InvalidOption("token", reason)
    return StructType(
        [
            StructField(column.name, column.dataType, column.nullable, {_KEY: kept})
            if column.name == "queue"
            else column
            for column in schema.fields
        ]
    )


def table_options(schema: StructType) -> dict[str, str]:
    """Return the options of the table that has this schema; empty for any other schema."""
    kept = (column.metadata.get(_KEY) for column in schema.fields if column.name == "queue")
    return dict(next(kept, None) or {})
