"""How a record is stored: a format version, a checksum, MessagePack.

    1 byte    4 bytes         the rest
    version   CRC-32 of rest  the record

RocksDB checks its blocks too; this check also covers what passes through memory and through
a repair, and names the record that is broken. Index entries (``t i j u …``) are plain numbers
that can be made again from the records.
"""

import struct
import zlib
from typing import Generic, TypeVar

import msgspec

from skep.errors import Corrupted

VERSION = 1
_HEADER = struct.Struct("<BI")
_encoder = msgspec.msgpack.Encoder()

T = TypeVar("T")


def encode(record: msgspec.Struct) -> bytes:
    body = _encoder.encode(record)
    return _HEADER.pack(VERSION, zlib.crc32(body)) + body


class Decoder(Generic[T]):
    """Reads the records of one type back."""

    def __init__(self, kind: type[T]) -> None:
        self._name = kind.__name__
        self._decode = msgspec.msgpack.Decoder(kind).decode

    def __call__(self, value: bytes) -> T:
        if len(value) < _HEADER.size:
            raise Corrupted(f"a stored {self._name} is cut short; restore a backup")
        version, checksum = _HEADER.unpack_from(value)
        if version != VERSION:
            raise Corrupted(
                f"a stored {self._name} has format {version}, this version reads {VERSION}"
            )
        body = value[_HEADER.size :]
        if zlib.crc32(body) != checksum:
            raise Corrupted(f"a stored {self._name} fails its checksum; restore a backup")
        try:
            return self._decode(body)
        except msgspec.MsgspecError as error:
            raise Corrupted(f"a stored {self._name} cannot be read: {error}") from None
