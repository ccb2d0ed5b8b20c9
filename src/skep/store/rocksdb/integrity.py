"""Checks for damage that RocksDB does not notice by itself, made before and after it opens.

* A directory that lost its CURRENT file looks new to RocksDB, which then deletes what it holds.
* A damaged length in the middle of the log looks like its torn end, and a missing log looks like
  one that never existed: RocksDB would drop what follows without an error. So the number of the
  last synced write is kept in a file of its own. It is written after each sync and not synced
  itself: after a power failure it may be too low, never too high.
* RocksDB also cuts off the torn end of a log that others follow, and does not notice that a log
  between two others is missing. But writes are numbered without gaps, across all logs.
* A damaged length in the manifest makes tables unknown, and unknown tables are deleted.
* A damaged type of a record, read as that of a recycled log, makes RocksDB 9.8 loop for ever.
"""

import logging
import os
import struct
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path

from skep.errors import Corrupted

ADVICE = (
    "Nothing was changed. Restore a backup, or keep a copy of the directory and see the page on "
    "operations for what can be saved."
)

_log = logging.getLogger("skep.store")
SYNCED = "SYNCED"
_SYNCED = struct.Struct("<QI")
_BLOCK = 32 * 1024
_HEADER = 7
_FULL, _FIRST, _LAST = 1, 2, 4
"""Types of records; 3 is one in the middle, 0 the padding of a file. Higher ones are those of
recycled logs."""
_BATCH = struct.Struct("<QI")
"""A batch of writes begins with the number of the first, and how many there are."""


def close_to_others(path: Path) -> None:
    """Deny other users access to a directory that we own: RocksDB's files are world-readable."""
    if path.stat().st_uid == os.geteuid():
        path.chmod(0o700)


def holds_a_store(path: Path) -> bool:
    """Whether the directory holds a store; raises ``Corrupted`` if it holds parts of one.

    Empty files do not count: an interrupted first opening leaves them.
    """
    written = (*path.glob("[0-9]*.log"), *path.glob(SYNCED))
    if not any(path.glob("*.sst")) and not any(file.stat().st_size for file in written):
        return False
    if not (path / "CURRENT").exists():
        raise Corrupted(f"{path} is damaged: it holds data but no CURRENT file. {ADVICE}")
    return True


def check_logs(path: Path) -> None:
    """Raise ``Corrupted`` for logs that RocksDB would not recover from, or that are incomplete.

    The end of the last one may be missing, as after a crash.
    """
    previous: tuple[Path, int] | None = None
    for log in sorted(path.glob("[0-9]*.log")):
        writes = _writes_of(log)
        if writes is None:
            continue
        first, end = writes
        if previous is not None and first > previous[1]:
            raise Corrupted(
                f"{path} is damaged: writes {previous[1]} to {first - 1} are missing between "
                f"{previous[0].name} and {log.name}. {ADVICE}"
            )
        previous = log, end


def sync_logs(path: Path) -> None:
    """Make the logs durable without RocksDB."""
    for log in path.glob("[0-9]*.log"):
        file = os.open(log, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fdatasync(file)
        finally:
            os.close(file)


def check_tables(path: Path, known: Collection[str]) -> None:
    """Raise ``Corrupted`` if the manifest ends within a record and does not name all tables.

    Either alone is harmless: a power failure tears the manifest, and unnamed tables may be
    leftovers. Both together mean that a damaged length hides tables with data.
    """
    manifest = path / (path / "CURRENT").read_text().strip()
    unknown = {table.name for table in path.glob("*.sst")}.difference(known)
    if unknown and _end_of(manifest) != manifest.stat().st_size:
        raise Corrupted(
            f"{path} is damaged: {manifest.name} ends within a record and does not name "
            f"{', '.join(sorted(unknown))}. {ADVICE}"
        )


def _writes_of(log: Path) -> tuple[int, int] | None:
    """The number of the first write in a log, and the one that follows its last; None if it has
    none. Writes after a gap in the numbers do not count."""
    first = end = None
    is_next = True
    for number, count in _batches(log.read_bytes(), log):
        is_next = is_next and end in (None, number)
        if is_next:
            first = number if first is None else first
            end = number + count
    return None if first is None or end is None else (first, end)


def _batches(data: bytes, log: Path) -> Iterator[tuple[int, int]]:
    """The number of the first write of each complete batch, and how many it has.

    A batch is one record, or several: the first, some in the middle, and the last.
    """
    head = b""
    for kind, start, end in _records(data, log):
        if end > len(data):
            return
        if kind in (_FULL, _FIRST):
            head = b""
        if len(head) < _BATCH.size:
            head += data[start : min(end, start + _BATCH.size)]
        if kind in (_FULL, _LAST) and len(head) >= _BATCH.size:
            yield _BATCH.unpack_from(head)


def _end_of(log: Path) -> int:
    """The end of the last record of a log, according to the lengths of its records."""
    data = log.read_bytes()
    return max((end for _, _, end in _records(data, log)), default=0)


def _records(data: bytes, log: Path) -> Iterator[tuple[int, int, int]]:
    """The type of each record, where its content begins and where it ends."""
    at = 0
    while at + _HEADER <= len(data):
        if _BLOCK - at % _BLOCK < _HEADER:
            at += _BLOCK - at % _BLOCK
            continue
        kind = data[at + 6]
        if kind > _LAST:
            raise Corrupted(f"{log} is damaged at byte {at}. {ADVICE}")
        end = at + _HEADER + int.from_bytes(data[at + 4 : at + 6], "little")
        yield kind, at + _HEADER, end
        at = end


class Synced:
    """The number of the last write that is known to be on disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path / SYNCED, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def check(self, present: int) -> None:
        """Raise ``Corrupted`` if the last write, ``present``, comes before one that was synced."""
        kept = os.pread(self._file, _SYNCED.size, 0)
        if len(kept) < _SYNCED.size:
            return
        number, checksum = _SYNCED.unpack(kept)
        if checksum == zlib.crc32(kept[:8]) and present < number:
            raise Corrupted(
                f"{self._path} is damaged: its log ends at write {present}, but {number} was "
                f"answered. {ADVICE}"
            )

    def note(self, number: int) -> None:
        line = _SYNCED.pack(number, zlib.crc32(number.to_bytes(8, "little")))
        try:
            os.pwrite(self._file, line, 0)
        except OSError as error:
            # The number may be too low; the sync itself has succeeded.
            _log.warning(
                "could not record the last synced write: path=%s error=%s", self._path, error
            )

    def close(self) -> None:
        os.close(self._file)
