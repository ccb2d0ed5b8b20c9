"""The outcomes of changes with an idempotency key, in RocksDB."""

from collections.abc import Mapping
from itertools import islice

from rocksdict import WriteBatch

from skep.model.change import IdempotencyKey, Outcome
from skep.model.name import Instant
from skep.store.commit.evaluation import RecordedOutcome
from skep.store.rocksdb import keys
from skep.store.rocksdb.context import RocksContext
from skep.store.rocksdb.record_codec import Decoder, encode

_recorded = Decoder(RecordedOutcome)


class RocksIdempotencyTable:
    def __init__(self, context: RocksContext) -> None:
        self._db = context.db

    async def find_outcome(self, key: IdempotencyKey) -> Outcome | None:
        recorded = self.recorded(key.name)
        return recorded.answer(key) if recorded else None

    async def forget_outcomes(self, before: Instant, *, limit: int) -> int:
        batch = WriteBatch(raw_mode=True)
        old = list(islice(self._db.scan(b"o", keys.outcome_age_key(before, "")), limit))
        for key, _ in old:
            batch.delete(key)
            batch.delete(b"k" + key[9:])
        if old:
            self._db.write(batch)
            await self._db.sync()
        return len(old)

    def recorded(self, name: str) -> RecordedOutcome | None:
        value = self._db.get(keys.outcome_key(name))
        return None if value is None else _recorded(value)

    def put_outcomes(self, batch: WriteBatch, outcomes: Mapping[str, RecordedOutcome]) -> None:
        for name, recorded in outcomes.items():
            batch.put(keys.outcome_key(name), encode(recorded))
            batch.put(keys.outcome_age_key(recorded.created_at, name), b"")
