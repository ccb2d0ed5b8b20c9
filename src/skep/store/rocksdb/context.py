"""What all rows have in common: the database, the clock, and numbers that are never given twice."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from rocksdict import WriteBatch

from skep.errors import Corrupted, StoreStalled
from skep.store.clock import Clock, SystemClock
from skep.store.protocol import Gauge
from skep.store.rocksdb import keys
from skep.store.rocksdb.database import Database
from skep.store.single_server import SingleServer

FORMAT = b"1"

T = TypeVar("T")


class Rows(SingleServer):
    """The base of the files that each hold one kind of rows; ``RocksStore`` is all of them.

    Everything is judged and written on the thread of the event loop, so reads between two
    ``await`` see a state that nobody else changes. What is read may not be durable yet;
    whoever must not show it waits for the commit that made it.
    """

    stall_seconds = 0.5
    """How long a write stall may last before calls are refused because of it."""

    def __init__(self, path: Path, *, clock: Clock | None = None) -> None:
        self._db = Database(path)
        self.clock = clock or SystemClock()
        try:
            self._id = self._open_format()
            self._number = keys.unpack(self._db.get(keys.about("number")) or bytes(8))
            self._numbered = self._number
            self._load()
            self._db.refuse_stalls()
        except BaseException:
            self._db.close()
            raise

    @property
    def failure(self) -> str | None:  # type: ignore[override]
        return self._db.failure

    def gauges(self) -> Sequence[Gauge]:
        return self._db.gauges()

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def _load(self) -> None:
        """Read what is kept in memory. Each kind of rows adds its own."""
        self._removing: dict[int, dict[bytes, bytes]] = {
            keys.last_number(key): {} for key, _ in self._db.scan(b"x", b"y")
        }
        """Deleted queues with rows that are still to be removed, and how far each kind of them is.

        That is not stored: after a restart each kind is looked through from its beginning once.
        """
        self._removing_groups: dict[tuple[int, str], bytes] = {
            keys.listed_group(key): b"" for key, _ in self._db.scan(b"y", b"z")
        }
        """Groups with states that are still to be removed, by queue and stored name, and the key
        of the state to go on from."""

    def _write(self, batch: WriteBatch) -> None:
        if self._numbered != self._number:
            batch.put(keys.about("number"), keys.pack(self._number))
        self._db.write(batch)
        self._numbered = self._number

    async def _outlasting_stalls(self, work: Callable[[], T]) -> T:
        """Do work that ends with a write; after a write stall again, from its beginning."""
        try:
            return work()
        except StoreStalled:
            return await self._outlast_stall(work)

    async def _outlast_stall(self, work: Callable[[], T], patience: float | None = None) -> T:
        until = time.monotonic() + (self.stall_seconds if patience is None else patience)
        while True:
            await self._db.outlast_stall(until)
            with suppress(StoreStalled):
                return work()

    def _open_format(self) -> str:
        known = self._db.get(keys.about("format"))
        if known is not None and known != FORMAT:
            raise Corrupted(
                f"{self._db.path} has format {known.decode()}, this version reads {FORMAT.decode()}"
            )
        store_id = self._db.get(keys.about("id"))
        if store_id is None:
            store_id = str(uuid4()).encode()
            batch = WriteBatch(raw_mode=True)
            batch.put(keys.about("format"), FORMAT)
            batch.put(keys.about("id"), store_id)
            self._db.write(batch)
        return store_id.decode()
