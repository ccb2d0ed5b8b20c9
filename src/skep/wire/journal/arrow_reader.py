"""Rows from an Arrow IPC stream. The stream is untrusted: everything in it is checked.

Arrow is imported with the first stream, so that a server that never gets one does not pay for it.
"""

import struct
from collections.abc import Iterator
from typing import Any

from skep.errors import Invalid, TooLarge
from skep.model.sink import StagedRows

MEDIA_TYPE = "application/vnd.apache.arrow.stream"
_END = b"\xff\xff\xff\xff\0\0\0\0"
_COLUMNS = {
    "payload": "payloads",
    "queue": "queues",
    "partition": "partitions",
    "transaction_id": "transaction_ids",
    "trace_id": "trace_ids",
}
_VERSION, _HEADER, _CUSTOM_METADATA = 0, 2, 4
"""Fields of a message's table."""
_COMPRESSION = 3
"""A field of a record batch's table."""
_V5 = 4
_SLICE = 4096
_TEXT = ("string", "large_string")
_BINARY = ("binary", "large_binary")


def to_rows(body: bytes, *, most: int) -> StagedRows:
    """Up to ``most`` rows of a stream; ``payload`` is required, and unknown columns are rejected.

    The decoded rows are not larger than the stream itself.
    """
    import pyarrow as pa  # imported when it is needed

    if not body.endswith(_END):
        raise Invalid("body", "is not a complete Arrow IPC stream: the end is missing")
    try:
        schema, batches = _read(pa, body)
    except (pa.ArrowException, OSError, EOFError, ValueError, struct.error) as error:
        raise Invalid("body", f"is not an Arrow IPC stream: {_first_line(error)}") from None
    count = sum(batch.num_rows for batch in batches)
    if count > most:
        raise TooLarge("rows", f"must be at most {most}, not {count}")
    columns: dict[str, list[Any]] = {_COLUMNS[name]: [] for name in schema.names}
    for batch in batches:
        for name, column in zip(schema.names, batch.columns, strict=True):
            columns[_COLUMNS[name]] += _values(pa, name, column)
    return StagedRows(**columns)


def _read(pa: Any, body: bytes) -> tuple[Any, list[Any]]:
    messages = iter(pa.ipc.MessageReader.open_stream(pa.py_buffer(body)))
    schema = pa.ipc.read_schema(_next(messages))
    _check_schema(schema)
    return schema, [_batch(pa, message, schema) for message in messages]


def _next(messages: Iterator[Any]) -> Any:
    message = next(messages, None)
    if message is None or message.type != "schema":
        raise Invalid("body", "is not an Arrow IPC stream: it has no schema")
    _check_message(message.metadata.to_pybytes())
    return message


def _check_schema(schema: Any) -> None:
    for name in schema.names:
        if name not in _COLUMNS:
            raise Invalid(name, f"is not a column; columns are {', '.join(_COLUMNS)}")
        if schema.names.count(name) > 1:
            raise Invalid(name, "is a duplicate")
        # Plain layouts only: a view or a dictionary of a few bytes can stand for
        # any amount of memory.
        allowed = (*_TEXT, *_BINARY) if name == "payload" else _TEXT
        kind = str(schema.field(name).type)
        if kind not in allowed:
            raise Invalid(name, f"must be of type {' or '.join(allowed)}, not {kind}")
    if "payload" not in schema.names:
        raise Invalid("payload", "is required")


def _batch(pa: Any, message: Any, schema: Any) -> Any:
    if message.type != "record batch":
        raise Invalid("body", f"must consist of record batches, not {message.type}")
    metadata = message.metadata.to_pybytes()
    _check_message(metadata)
    if _field(metadata, _header(metadata), _COMPRESSION):
        raise Invalid("body", "must not be compressed")
    batch = pa.ipc.read_record_batch(message, schema)
    if batch.nbytes > message.body.size:
        raise Invalid("body", "has columns that share the same bytes")
    return batch


def _values(pa: Any, name: str, column: Any) -> list[Any]:
    try:
        # Lengths and offsets may point anywhere: without this check, into other memory of the
        # process.
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise Invalid(name, f"is damaged: {_first_line(error)}") from None
    if name == "payload":
        is_large = str(column.type).startswith("large_")
        column = column.view(pa.large_binary() if is_large else pa.binary())
    values: list[Any] = []
    # In slices: other threads cannot run while Arrow creates Python objects.
    for at in range(0, len(column), _SLICE):
        values += column.slice(at, _SLICE).to_pylist()
    return values


def _check_message(metadata: bytes) -> None:
    """Reject versions before V5: in those the custom metadata could declare the buffers compressed.
    A few bytes could then fill the memory, and Arrow takes no limit.

    The message is a flatbuffer: tables that begin with the positions of their fields.
    """
    (message,) = struct.unpack_from("<I", metadata)
    version = _field(metadata, message, _VERSION)
    if not version or struct.unpack_from("<h", metadata, version)[0] != _V5:
        raise Invalid("body", "must have version V5 of Arrow's metadata")
    if _field(metadata, message, _CUSTOM_METADATA):
        raise Invalid("body", "must not have custom metadata in its messages")


def _header(metadata: bytes) -> int:
    """The position of the table of a message's record batch."""
    (message,) = struct.unpack_from("<I", metadata)
    header = _field(metadata, message, _HEADER)
    return header + int(struct.unpack_from("<I", metadata, header)[0])


def _field(data: bytes, table: int, number: int) -> int:
    """The position of a field of a table; 0 if the table does not have it."""
    fields = table - struct.unpack_from("<i", data, table)[0]
    size = struct.unpack_from("<H", data, fields)[0]
    at = 4 + 2 * number
    offset = struct.unpack_from("<H", data, fields + at)[0] if at < size else 0
    return table + offset if offset else 0


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
