"""What all rows have in common: the database, the clock, and numbers that are never given twice."""

from pathlib import Path
from uuid import uuid4

from rocksdict import WriteBatch

from skep.errors import Corrupted
from skep.store.alone import Alone
from skep.store.clock import Clock, SystemClock
from skep.store.rocksdb import keys
from skep.store.rocksdb.database import Database

FORMAT = b"1"


class Rows(Alone):
    """The base of the files that each hold one kind of rows; ``RocksStore`` is all of them.

    Everything is judged and written on the thread of the event loop, so reads between two
    ``await`` see a state that nobody else changes. What is read may not be durable yet;
    whoever must not show it waits for the commit that made it.
    """

    def __init__(self, path: Path, *, clock: Clock | None = None) -> None:
        self._db = Database(path)
        self.clock = clock or SystemClock()
        try:
            self._id = self._open_format()
            self._number = keys.unpack(self._db.get(keys.about("number")) or bytes(8))
            self._numbered = self._number
            self._load()
        except BaseException:
            self._db.close()
            raise

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def _load(self) -> None:
        """Read what is kept in memory. Each kind of rows adds its own."""

    def _write(self, batch: WriteBatch) -> None:
        if self._numbered != self._number:
            batch.put(keys.about("number"), keys.pack(self._number))
        self._db.write(batch)
        self._numbered = self._number

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
