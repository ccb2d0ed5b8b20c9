"""The files of a store, as a crash or a bad disk leaves them behind."""

import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rocksdict import WriteBatch

from skep.store.rocksdb import keys
from skep.store.rocksdb.store import RocksStore
from tests.support.rocksdb_builders import LOG, open_store, push_numbers, start

BLOCK = 32 * 1024
_HEADER = struct.Struct("<IHB")


class Record(NamedTuple):
    """A record of RocksDB's log: checksum (4 bytes), length (2), type (1), payload."""

    at: int
    length: int

    @property
    def places(self) -> dict[str, int]:
        return {
            "checksum": self.at,
            "length": self.at + 4,
            "high length": self.at + 5,
            "type": self.at + 6,
            "payload": self.at + _HEADER.size,
            "middle": self.at + _HEADER.size + self.length // 2,
            "last byte": self.at + _HEADER.size + self.length - 1,
        }


def records(log: bytes) -> Iterator[Record]:
    at = 0
    while at < len(log):
        if BLOCK - at % BLOCK < _HEADER.size:
            at += BLOCK - at % BLOCK
        record = Record(at, _HEADER.unpack_from(log, at)[1])
        yield record
        at += _HEADER.size + record.length


async def crashed_store(path: Path, count: int, *, flushed: bool = False, after: int = 0) -> Path:
    """What is on disk of a store with ``count`` numbers whose process ended without closing.

    With ``flushed`` they are in tables, but for the last ``after``, which are in the log.
    """
    store = open_store(path / "live")
    partition = await start(store)
    await push_numbers(store, partition, 0, count - after)
    if flushed:
        store._db._db.flush()
        store._db._segments.flush()
    await push_numbers(store, partition, count - after, count)
    crashed = shutil.copytree(path / "live", path / "crashed")
    await store.close()
    return crashed


def copy(source: Path) -> Path:
    """A fresh copy to damage and to open, beside the source."""
    target = source.with_name("copy")
    shutil.rmtree(target, ignore_errors=True)
    return shutil.copytree(source, target)


def flip(path: Path, at: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


def flip_stored(store: RocksStore, partition: int) -> None:
    """Damage the segments of a partition of a store that is open."""
    batch = WriteBatch(raw_mode=True)
    whole = keys.pack(partition), keys.after(keys.pack(partition))
    for key, value in list(store._db.scan_segments(*whole)):
        batch.put(key, value[:-1] + bytes([value[-1] ^ 1]), store._db.segments)
    store._db.write(batch)


def tables(path: Path) -> list[Path]:
    """The two tables of a store that was flushed once: records, then segments."""
    first, second = sorted(path.glob("*.sst"))
    return [first, second]


def manifest(path: Path) -> Path:
    return path / (path / "CURRENT").read_text().strip()


def log_of(path: Path) -> Path:
    return path / LOG
