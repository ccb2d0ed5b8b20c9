"""Dead letters in RocksDB."""

from collections.abc import Iterable, Iterator
from itertools import islice

from rocksdict import WriteBatch

from skep.model.change import GiveUp
from skep.model.dead_letter import DeadLetter, DeadLetterFilter
from skep.model.name import Offset
from skep.store.commit.evaluation import CommitRound
from skep.store.protocol import GivenUp
from skep.store.rocksdb import keys
from skep.store.rocksdb.context import RocksContext
from skep.store.rocksdb.record_codec import Decoder, encode

_letter = Decoder(DeadLetter)


class RocksDeadLetterTable:
    def __init__(self, context: RocksContext) -> None:
        self._db = context.db
        self._purging = context.purging_queues

    async def dead_letters(
        self, which: DeadLetterFilter, *, before: int | None = None, limit: int
    ) -> list[DeadLetter]:
        return list(islice(self._matching(which, before), limit))

    def count(self) -> int:
        """The number of dead letters of all queues."""
        owners = (keys.unpack(key[1:9]) for key, _ in self._db.scan(b"d", b"e"))
        return sum(1 for queue in owners if queue not in self._purging)

    async def count_dead_letters(self, which: DeadLetterFilter) -> int:
        if which == DeadLetterFilter(queue=which.queue) and which.queue not in self._purging:
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

    def dead_letter(self, queue: int, number: int) -> DeadLetter | None:
        if queue in self._purging:
            return None
        value = self._db.get(keys.dead_letter_key(queue, number))
        return None if value is None else _letter(value)

    def letter_of(self, letter: GiveUp) -> int | None:
        message = keys.dead_message_key(letter.partition, letter.offset, letter.group)
        number = self._db.get(message)
        return None if number is None else keys.unpack(number)

    def _matching(self, which: DeadLetterFilter, before: int | None) -> Iterator[DeadLetter]:
        if which.queue in self._purging:
            return iter(())
        prefix = b"d" + keys.pack(which.queue)
        upper = keys.after(prefix) if before is None else prefix + keys.pack(before)
        letters = (_letter(value) for _, value in self._db.scan(prefix, upper, backwards=True))
        return filter(which.matches, letters)

    def put_dead_letters(self, batch: WriteBatch, round_: CommitRound) -> None:
        for (queue, number), letter in round_.removed.items():
            batch.delete(keys.dead_letter_key(queue, number))
            batch.delete(keys.dead_message_key(letter.partition, letter.offset, letter.group))
        for queue, number in round_.replaced:
            batch.delete(keys.dead_letter_key(queue, number))
        self.load(batch, round_.dead_letters.values())

    def load(self, batch: WriteBatch, letters: Iterable[DeadLetter]) -> None:
        for letter in letters:
            message = keys.dead_message_key(letter.partition, letter.offset, letter.group)
            batch.put(message, keys.pack(letter.number))
            batch.put(keys.dead_letter_key(letter.queue, letter.number), encode(letter))
