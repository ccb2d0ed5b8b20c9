"""What the tables share: the database, the clock, and numbers that are never used twice."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from rocksdict import WriteBatch

from skep.errors import Corrupted, StoreStalled
from skep.store.clock import Clock, SystemClock
from skep.store.rocksdb import keys
from skep.store.rocksdb.database import Database

FORMAT = b"1"

T = TypeVar("T")


class RocksContext:
    """The open database of one store; every table has a reference to it.

    All reads and writes run on the thread of the event loop, so reads between two ``await`` see
    one state. What they return may not be durable yet: a caller that must not expose it waits for
    the sync of the commit that wrote it.
    """

    stall_seconds = 0.5
    """Seconds a write waits for RocksDB to end a stall before it is rejected."""

    def __init__(self, path: Path, *, clock: Clock | None = None) -> None:
        self.db = Database(path)
        self.clock = clock or SystemClock()
        try:
            self.store_id = self._open_format()
            self.last_number = keys.unpack(self.db.get(keys.about("number")) or bytes(8))
            self._stored_number = self.last_number
            self.purging_queues: dict[int, dict[bytes, bytes]] = {
                keys.last_number(key): {} for key, _ in self.db.scan(b"x", b"y")
            }
            """Deleted queues with rows left to purge, and the progress by kind of row.

            The progress is not stored: after a restart each kind is scanned from its beginning."""
            self.purging_groups: dict[tuple[int, str], bytes] = {
                keys.listed_group(key): b"" for key, _ in self.db.scan(b"y", b"z")
            }
            """Deleted groups with states left to purge, by queue and stored name, and the key of
            the next state."""
        except BaseException:
            self.db.close()
            raise

    def next_number(self) -> int:
        self.last_number += 1
        return self.last_number

    def reserve_numbers(self, last: int) -> None:
        """Never return a number up to ``last`` from ``next_number``."""
        self.last_number = max(self.last_number, last)

    def write(self, batch: WriteBatch) -> None:
        """Write the batch, and with it the last number in use."""
        if self._stored_number != self.last_number:
            batch.put(keys.about("number"), keys.pack(self.last_number))
        self.db.write(batch)
        self._stored_number = self.last_number

    async def retry_stalled(self, work: Callable[[], T]) -> T:
        """Run ``work``, which ends with a write; run it again if RocksDB stalled the write."""
        try:
            return work()
        except StoreStalled:
            return await self.retry_after_stall(work)

    async def retry_after_stall(self, work: Callable[[], T], patience: float | None = None) -> T:
        """Run ``work`` once the stall is over; raises ``StoreStalled`` if that takes too long."""
        deadline = time.monotonic() + (self.stall_seconds if patience is None else patience)
        while True:
            await self.db.outlast_stall(deadline)
            with suppress(StoreStalled):
                return work()

    def _open_format(self) -> str:
        stored_format = self.db.get(keys.about("format"))
        if stored_format is not None and stored_format != FORMAT:
            raise Corrupted(
                f"{self.db.path} has format {stored_format.decode()}, "
                f"this version reads {FORMAT.decode()}"
            )
        store_id = self.db.get(keys.about("id"))
        if store_id is None:
            store_id = str(uuid4()).encode()
            batch = WriteBatch(raw_mode=True)
            batch.put(keys.about("format"), FORMAT)
            batch.put(keys.about("id"), store_id)
            self.db.write(batch)
        return store_id.decode()
