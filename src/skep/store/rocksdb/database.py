"""The few RocksDB calls that the store makes, and how their failures are handled."""

import asyncio
import logging
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TypeAlias
from weakref import WeakSet

from rocksdict import AccessType, Checkpoint, Rdict, ReadOptions, WriteBatch, WriteOptions

from skep.errors import (
    Closed,
    Corrupted,
    Invalid,
    OutcomeUnknown,
    SkepError,
    StoreFailed,
    StoreFull,
    StoreStalled,
    Unavailable,
)
from skep.store.protocol import Gauge
from skep.store.rocksdb.directory_lock import DirectoryLock
from skep.store.rocksdb.integrity import (
    ADVICE,
    Synced,
    check_logs,
    check_tables,
    close_to_others,
    holds_a_store,
    sync_logs,
)
from skep.store.rocksdb.keys import about
from skep.store.rocksdb.options import database_options, segment_options
from skep.store.rocksdb.wal_sync import Syncer
from skep.store.rocksdb.write_pressure import gauges_of

_log = logging.getLogger("skep.store")
Entries: TypeAlias = Generator[tuple[bytes, bytes], None, None]
_STALL = "Write stall"
_PAUSE = 0.002
_NO_SPACE = "No space left"
_NOT_DAMAGE = ("LOCK:", "Permission denied", _NO_SPACE, "Too many open files", "Read-only")


class Database:
    """An open directory. One thread writes; slow syncs have a thread of their own.

    ``flush_wal`` releases the GIL while the disk works; ``write`` with ``sync`` does not. After a
    write or a sync has failed it is unknown what is on disk, so all further writes are rejected
    until recovery at the next start.

    A full disk is the exception, because RocksDB does not apply a batch that it could not append
    to its log. It rejects writes, checks every five seconds for space, and then flushes its
    memtables and starts a new log.

    A write stall would block the thread and, because ``write`` holds the GIL, every other thread
    too. So after ``refuse_stalls`` such a write raises ``StoreStalled`` instead.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            close_to_others(path)
            self._lock = DirectoryLock(path)
        except OSError as error:
            raise Unavailable(f"{path} cannot be opened: {error}") from error
        try:
            self._open(path)
        except BaseException:
            self._lock.release()
            raise
        self._syncer = Syncer(self._sync)
        self._scans = WeakSet[Entries]()
        self._failure: str | None = None
        self._is_full = False
        self._is_stalled = False
        self._closed = False

    def _open(self, path: Path) -> None:
        create = not holds_a_store(path)
        check_logs(path)
        self._synced = Synced(path)
        try:
            if not create:
                self._look(path)
            self._db = _open_files(path, create=create, access=AccessType.read_write())
        except BaseException:
            self._synced.close()
            raise
        self._segments = self._db.get_column_family("segments")
        self.segments = self._db.get_column_family_handle("segments")

    def _look(self, path: Path) -> None:
        """Check the files before RocksDB truncates its log and deletes files it does not know."""
        database = _open_files(path, create=False, access=AccessType.read_only())
        try:
            has_id = database.get(about("id")) is not None
        except Exception as error:
            raise _opening_failed(path, error) from error
        present = database.latest_sequence_number()
        # The name is a path in the directory: /000012.sst
        tables = {Path(table["name"]).name for table in database.live_files()}
        database.close()
        self._synced.check(present)
        if present and not has_id:
            raise Corrupted(f"{path} is damaged: it has lost its own id. {ADVICE}")
        check_tables(path, tables)

    def get(self, key: bytes) -> bytes | None:
        self._check_open()
        try:
            value: bytes | None = self._db.get(key)
        except Exception as error:
            raise _unreadable(error) from error
        return value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self._check_open()
        try:
            return list(self._db.get(list(keys)) or ())
        except Exception as error:
            raise _unreadable(error) from error

    def scan(self, lower: bytes, upper: bytes, *, backwards: bool = False) -> Entries:
        """The entries of ``[lower, upper)`` in order, or in reverse order."""
        self._check_open()
        return self._scan(self._db, lower, upper, backwards)

    def scan_segments(self, lower: bytes, upper: bytes, *, backwards: bool = False) -> Entries:
        self._check_open()
        return self._scan(self._segments, lower, upper, backwards)

    def _scan(self, family: Rdict, lower: bytes, upper: bytes, backwards: bool) -> Entries:
        entries = _scan(family, lower, upper, backwards=backwards)
        self._scans.add(entries)
        return entries

    def get_segments(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self._check_open()
        try:
            return list(self._segments.get(list(keys)) or ())
        except Exception as error:
            raise _unreadable(error) from error

    def write(self, batch: WriteBatch) -> None:
        """Apply the batch atomically; it is durable after the next ``sync``."""
        self.check()
        try:
            self._db.write(batch)
        except Exception as error:
            raise self._refused(error) from error

    def refuse_stalls(self) -> None:
        """Make writes that RocksDB would delay raise ``StoreStalled`` from now on."""
        options = WriteOptions()
        options.no_slowdown = True
        self._db.set_write_options(options)

    async def outlast_stall(self, until: float) -> None:
        """Wait for the end of a write stall until a time of the monotonic clock.

        Raises ``StoreStalled`` at that time; later writes then fail at once until it has ended.
        """
        while not self._is_stalled:
            await asyncio.sleep(_PAUSE)
            self._check_open()
            if not self._writes_stopped():
                return
            if time.monotonic() >= until:
                self._is_stalled = True
                _log.warning("write stall, rejecting writes: path=%s %s", self.path, self._state())
        raise StoreStalled

    async def sync(self) -> None:
        """Make all writes so far durable."""
        try:
            await self._syncer.sync()
        except Exception as error:
            raise self._failed(error) from error

    def _sync(self) -> None:
        number = self._db.latest_sequence_number()
        if self._is_full:
            # After a failed append RocksDB rejects a sync of earlier appends, and a rejected sync
            # would keep it from resuming.
            sync_logs(self.path)
        else:
            self._db.flush_wal(True)
        self._synced.note(number)

    def check(self) -> None:
        """Raise if writes are rejected. If the disk was full, check whether it still is."""
        self._check_open()
        if self._is_full:
            self._try_again()
        if self._is_stalled:
            self._check_stall()
        if self._failure is not None:
            raise StoreFailed(self._failure)

    @property
    def failure(self) -> str | None:
        return self._failure

    def _try_again(self) -> None:
        try:
            self._db.write(WriteBatch(raw_mode=True))
        except Exception as error:
            raise self._refused(error) from error
        self._is_full = False
        _log.warning("disk has space again, accepting writes: path=%s", self.path)

    def _check_stall(self) -> None:
        if self._writes_stopped():
            raise StoreStalled
        self._is_stalled = False
        _log.warning("write stall has ended, accepting writes: path=%s", self.path)

    def gauges(self) -> list[Gauge]:
        return [] if self._closed else gauges_of([self._db, self._segments])

    def _state(self) -> str:
        return " ".join(f"{gauge.name}={gauge.value}" for gauge in self.gauges())

    def _writes_stopped(self) -> bool:
        return bool(self._db.property_int_value("rocksdb.is-write-stopped"))

    def checkpoint(self, path: Path) -> None:
        try:
            exists = path.exists()
        except OSError as error:
            raise Invalid("path", f"cannot be used: {error.strerror}") from None
        if exists:
            raise Invalid("path", f"{path} exists already")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            Checkpoint(self._db).create_checkpoint(str(path))
            close_to_others(path)
        except Exception as error:
            raise Unavailable(f"no backup was made at {path}: {error}") from error

    def bytes_on_disk(self) -> int:
        return sum(file.stat().st_size for file in self.path.rglob("*") if file.is_file())

    def close(self) -> None:
        """Release the directory, even if RocksDB fails to close it."""
        if self._closed:
            return
        self._closed = True
        self._syncer.close()
        try:
            self._close_files()
        except Exception as error:
            # Callers were told of failed writes, and recovery does not depend on a clean close.
            _log.warning("could not close the store cleanly: path=%s error=%s", self.path, error)
        finally:
            self._lock.release()

    def _close_files(self) -> None:
        self._synced.close()
        # An unfinished scan, perhaps referenced by an exception, and a handle of a column family
        # keep the database open as long as they live.
        for scan in list(self._scans):
            scan.close()
        segments, database = self._segments, self._db
        del self.segments, self._segments, self._db
        try:
            segments.close()
        finally:
            database.close()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed

    def _refused(self, error: Exception) -> SkepError:
        if _STALL in str(error):
            return StoreStalled()
        if _NO_SPACE not in str(error):
            return self._failed(error)
        if not self._is_full:
            _log.error("disk full, rejecting writes: path=%s", self.path)
        self._is_full = True
        return StoreFull()

    def _failed(self, error: Exception) -> OutcomeUnknown:
        self._failure = str(error)
        _log.error("store failed, reopen it: path=%s error=%s", self.path, error)
        return OutcomeUnknown(f"the store could not write: {error}")


def _open_files(path: Path, *, create: bool, access: AccessType) -> Rdict:
    families = {"segments": segment_options()}
    options = database_options(create=create)
    try:
        return Rdict(str(path), options, column_families=families, access_type=access)
    except Exception as error:
        raise _opening_failed(path, error) from error


def _scan(family: Rdict, lower: bytes, upper: bytes, *, backwards: bool) -> Entries:
    # The upper bound spares RocksDB the tombstones after the range. The lower bound of
    # rocksdict has no effect in raw mode, so the range is checked here on both sides.
    options = ReadOptions()
    options.set_iterate_upper_bound(upper)
    entries = family.iter(options)
    if backwards:
        entries.seek_for_prev(upper)
    else:
        entries.seek(lower)
    step = entries.prev if backwards else entries.next
    try:
        while entries.valid() and lower <= (key := entries.key()) < upper:
            yield key, entries.value()
            step()
        entries.status()
    except Exception as error:
        raise _unreadable(error) from error
    finally:
        del entries, step


def _unreadable(error: Exception) -> Corrupted:
    return Corrupted(f"the store cannot be read: {error}; restore a backup")


def _opening_failed(path: Path, error: Exception) -> Exception:
    if any(cause in str(error) for cause in _NOT_DAMAGE):
        return Unavailable(f"{path} cannot be opened: {error}")
    return Corrupted(f"{path} is damaged: {error}. {ADVICE}")
