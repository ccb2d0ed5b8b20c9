"""The Spark data source ``skep``: reads and writes queues, in batches and in streams.

Spark finds it by the prefix of the package's name and by ``DefaultSource``. It needs only pyspark
and pyarrow, because ``register`` sends it by value to Python environments that lack it. For the
same reason no function here imports from the package: that would fail there.
"""

import sys
from typing import TYPE_CHECKING

from pyspark.sql import datasource
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from pyspark_skep.arrow import pa
from pyspark_skep.column import columns_of, project, to_schema
from pyspark_skep.errors import (
    DataLost,
    Interrupted,
    InvalidColumns,
    InvalidOption,
    RequestRejected,
)
from pyspark_skep.options import Options, check_reading, check_writing, parse_options
from pyspark_skep.reader import BatchReader
from pyspark_skep.sink import BatchWriter, StreamWriter, check_columns
from pyspark_skep.stream import StreamReader
from pyspark_skep.table import table_options, with_table_options
from pyspark_skep.view import ViewReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "DataLost",
    "DefaultSource",
    "Interrupted",
    "InvalidColumns",
    "InvalidOption",
    "RequestRejected",
    "register",
]


class DefaultSource(DataSource):
    """The data source of ``format("skep")``."""

    @classmethod
    def name(cls) -> str:
        return "skep"

    def _parse_options(self, schema: StructType | None = None) -> Options:
        if pa is None:
            raise RuntimeError("the data source skep requires pyarrow: pip install pyarrow")
        return parse_options(self.options or ({} if schema is None else table_options(schema)))

    def schema(self) -> StructType:
        schema = to_schema(columns_of(self._parse_options()))
        # Only for a table in the catalog does Spark add its provider to the options.
        return with_table_options(schema, self.options) if "provider" in self.options else schema

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self._parse_options(schema)
        check_reading(options, stream=False)
        columns = project(options, schema)
        if options.view != "messages":
            return ViewReader(options, columns)
        return BatchReader(options, columns)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = self._parse_options(schema)
        check_reading(options, stream=True)
        return StreamReader(options, project(options, schema))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        options = self._parse_options(schema)
        check_writing(options, overwrite=overwrite, stream=False)
        check_columns(options, schema)
        return BatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        options = self._parse_options(schema)
        if not hasattr(datasource, "DataSourceStreamArrowWriter"):
            raise RuntimeError("writing a stream requires Spark 4.1 or newer")
        check_writing(options, overwrite=overwrite, stream=True)
        check_columns(options, schema)
        return StreamWriter(options)


def register(spark: "SparkSession") -> None:
    """Register the source by value, for clusters and Connect servers that do not have it."""
    from pyspark import cloudpickle

    package = sys.modules[__name__]
    # Covers the submodules too.
    cloudpickle.register_pickle_by_value(package)  # type: ignore[no-untyped-call]
    try:
        spark.dataSource.register(DefaultSource)
    finally:
        cloudpickle.unregister_pickle_by_value(package)  # type: ignore[no-untyped-call]
