"""Dead letters and the outcomes of changes that happen once, in RocksDB."""

from collections.abc import Iterator
from itertools import islice

from rocksdict import WriteBatch

from skep.model.change import GiveUp, IdempotencyKey, Outcome
from skep.model.dead_letter import DeadLetter, DeadLetterFilter
from skep.model.name import Instant, Offset
from skep.store.commit.evaluation import CommitRound, RecordedOutcome
from skep.store.protocol import GivenUp
from skep.store.rocksdb import keys
from skep.store.rocksdb.context import Rows
from skep.store.rocksdb.record_codec import Decoder, encode

_letter = Decoder(DeadLetter)
_recorded = Decoder(RecordedOutcome)


class LetterRows(Rows):
    async def dead_letters(
        self, which: DeadLetterFilter, *, before: int | None = None, limit: int
    ) -> list[DeadLetter]:
        return list(islice(self._matching(which, before), limit))

    async def count_dead_letters(self, which: DeadLetterFilter) -> int:
        if which == DeadLetterFilter(queue=which.queue) and which.queue not in self._removing:
            prefix = b"d" + keys.pack(which.queue)
            return sum(1 for _ in self._db.scan(prefix, keys.after(prefix)))
        return sum(1 for _ in self._matching(which, None))

    async def find_dead_letter(self, queue: int, number: int) -> DeadLetter | None:
        return self.dead_letter(queue, number)

    async def given_up(self, partition: int, start: Offset, stop: Offset) -> list[GivenUp]:
        lower, upper = (keys.dead_message_key(partition, at, "") for at in (start, stop))
        return [
            GivenUp(*keys.dead_message(key), keys.unpack(value))
            for key, value in self._db.scan(lower, upper)
        ]

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

    def dead_letter(self, queue: int, number: int) -> DeadLetter | None:
        if queue in self._removing:
            return None
        value = self._db.get(keys.dead_letter_key(queue, number))
        return None if value is None else _letter(value)

    def letter_of(self, letter: GiveUp) -> int | None:
        message = keys.dead_message_key(letter.partition, letter.offset, letter.group)
        number = self._db.get(message)
        return None if number is None else keys.unpack(number)

    def recorded(self, key: str) -> RecordedOutcome | None:
        value = self._db.get(keys.outcome_key(key))
        return None if value is None else _recorded(value)

    def _matching(self, which: DeadLetterFilter, before: int | None) -> Iterator[DeadLetter]:
        if which.queue in self._removing:
            return iter(())
        prefix = b"d" + keys.pack(which.queue)
        upper = keys.after(prefix) if before is None else prefix + keys.pack(before)
        letters = (_letter(value) for _, value in self._db.scan(prefix, upper, backwards=True))
        return filter(which.matches, letters)

    def _put_letters(self, batch: WriteBatch, round_: CommitRound) -> None:
        for (queue, number), letter in round_.removed.items():
            batch.delete(keys.dead_letter_key(queue, number))
            batch.delete(keys.dead_message_key(letter.partition, letter.offset, letter.group))
        for queue, number in round_.replaced:
            batch.delete(keys.dead_letter_key(queue, number))
        for message, letter in round_.dead_letters.items():
            batch.put(keys.dead_message_key(*message), keys.pack(letter.number))
            batch.put(keys.dead_letter_key(letter.queue, letter.number), encode(letter))
        for name, recorded in round_.recorded.items():
            batch.put(keys.outcome_key(name), encode(recorded))
            batch.put(keys.outcome_age_key(recorded.created_at, name), b"")
