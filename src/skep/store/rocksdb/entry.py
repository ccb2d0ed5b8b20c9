"""Entries in RocksDB."""

from collections.abc import Sequence
from itertools import islice

from rocksdict import WriteBatch

from skep.model.entry import Entry
from skep.store.commit.evaluation import CommitRound
from skep.store.rocksdb import keys
from skep.store.rocksdb.context import RocksContext
from skep.store.rocksdb.record_codec import Decoder, encode

_entry = Decoder(Entry)


class RocksEntryTable:
    def __init__(self, context: RocksContext) -> None:
        self._db = context.db

    async def find_entries(self, space: str, wanted: Sequence[str]) -> list[Entry]:
        values = self._db.get_many([keys.entry_key(space, key) for key in wanted])
        return [_entry(value) for value in values if value is not None]

    async def list_entries(
        self, space: str, *, prefix: str = "", after: str = "", limit: int
    ) -> list[Entry]:
        begin = keys.entry_key(space, prefix)
        lower = max(begin, keys.entry_key(space, after) + b"\x00" if after else begin)
        found = self._db.scan(lower, keys.after(begin))
        return [_entry(value) for _, value in islice(found, limit)]

    def entry_version(self, space: str, key: str) -> int:
        value = self._db.get(keys.entry_key(space, key))
        return 0 if value is None else _entry(value).version

    def put_entries(self, batch: WriteBatch, round_: CommitRound) -> None:
        for (space, key), entry in round_.entries.items():
            if entry is None:
                batch.delete(keys.entry_key(space, key))
            else:
                batch.put(keys.entry_key(space, key), encode(entry))
