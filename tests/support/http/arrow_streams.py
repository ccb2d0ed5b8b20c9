"""Arrow streams as a sink sends them."""

import struct
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


def bomb(rows: int, size: int) -> bytes:
    """Payloads of zeros in a stream of an older version, compressed as its custom metadata say."""
    payloads = pa.array([bytes(size)] * rows, pa.binary())
    batch = pa.record_batch({"payload": payloads})
    sink = pa.BufferOutputStream()
    version = pa.ipc.MetadataVersion.V4
    options = pa.ipc.IpcWriteOptions(compression="zstd", metadata_version=version)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch, custom_metadata={"ARROW:experimental_compression": "zstd"})
    return _without_compression_field(sink.getvalue().to_pybytes())


def _without_compression_field(stream: bytes) -> bytes:
    data = bytearray(stream)
    start = 16 + struct.unpack_from("<i", data, 4)[0]  # the metadata of the second message
    message = start + struct.unpack_from("<I", data, start)[0]
    header = message + struct.unpack_from("<H", data, _slot(data, message, 2))[0]
    batch = header + struct.unpack_from("<I", data, header)[0]
    struct.pack_into("<H", data, _slot(data, batch, 3), 0)
    return bytes(data)


def _slot(data: bytearray, table: int, number: int) -> int:
    """Where a table of a flatbuffer says where its field is."""
    fields: int = table - struct.unpack_from("<i", data, table)[0]
    return fields + 4 + 2 * number


def shared(rows: int) -> bytes:
    """A stream whose columns are all the same bytes of it."""
    names = ["payload", "queue", "partition"]
    batch = pa.record_batch([pa.array(["orders"] * rows)] * 3, names=names)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data = bytearray(sink.getvalue().to_pybytes())
    start = 16 + struct.unpack_from("<i", data, 4)[0]
    message = start + struct.unpack_from("<I", data, start)[0]
    header = message + struct.unpack_from("<H", data, _slot(data, message, 2))[0]
    table = header + struct.unpack_from("<I", data, header)[0]
    buffers = table + struct.unpack_from("<H", data, _slot(data, table, 2))[0]
    vector = buffers + struct.unpack_from("<I", data, buffers)[0] + 4
    for column in (1, 2):
        data[vector + 48 * column : vector + 48 * (column + 1)] = data[vector : vector + 48]
    length = message + struct.unpack_from("<H", data, _slot(data, message, 3))[0]
    size = struct.unpack_from("<q", data, length)[0] // 3
    struct.pack_into("<q", data, length, size)
    body = start + struct.unpack_from("<i", data, start - 4)[0]
    return bytes(data[: body + size]) + b"\xff\xff\xff\xff\0\0\0\0"
