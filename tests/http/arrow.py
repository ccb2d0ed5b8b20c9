"""Arrow streams as a sink sends them."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa


def to_stream(columns: Mapping[str, Any], *, compression: str | None = None) -> bytes:
    """A stream with these columns; an array as it is, a list as Arrow understands it."""
    return table_stream(pa.table(dict(columns)), compression=compression)


def table_stream(table: Any, *, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    stream: bytes = sink.getvalue().to_pybytes()
    return stream
