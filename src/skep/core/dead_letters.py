"""Dead letters: looking at them, sending them back, throwing them away."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from skep.core.catalogue import Catalogue
from skep.core.committer import Committer
from skep.core.limits import Limits
from skep.core.reading import Reading
from skep.core.state import PartitionState
from skep.errors import DeadLetterNotFound, Invalid
from skep.model.change import Append, Applied, Change, DeadLetterRemoval, Outcome
from skep.model.dead_letter import DeadLetter, DeadLetterFilter, FailedMessage
from skep.model.message import Receipt
from skep.model.names import check_count, check_label, from_datetime, to_datetime
from skep.model.segment import ENCRYPTED, Columns
from skep.store.protocol import Store

_STEP = 200
"""Dead letters sent back or removed at a time."""

MAX_NUMBER = (1 << 63) - 1


class DeadLetters:
    def __init__(
        self,
        store: Store,
        catalogue: Catalogue,
        committer: Committer,
        reading: Reading,
        limits: Limits,
    ) -> None:
        self._store = store
        self._catalogue = catalogue
        self._committer = committer
        self._reading = reading
        self._limits = limits

    async def list(
        self,
        queue: str,
        *,
        group: str | None = None,
        partition: str | None = None,
        from_: datetime | None = None,
        to: datetime | None = None,
        before: int | None = None,
        limit: int | None = None,
    ) -> list[FailedMessage]:
        """Newest first. ``before`` is the number of the last one of the page before."""
        limit = self._limits.check_page(limit)
        if before is not None:
            check_count("before", before, most=MAX_NUMBER)
        which = self._filter(queue, group, partition, from_, to)
        letters = await self._store.dead_letters(which, before=before, limit=limit)
        return [self._shown(letter) for letter in letters]

    async def count(
        self,
        queue: str,
        *,
        group: str | None = None,
        partition: str | None = None,
        from_: datetime | None = None,
        to: datetime | None = None,
    ) -> int:
        """How many there are, with the filter of ``list``."""
        return await self._store.count_dead_letters(
            self._filter(queue, group, partition, from_, to)
        )

    async def get(self, queue: str, number: int) -> FailedMessage:
        """One dead letter by its number."""
        return self._shown(await self._letter(queue, number))

    async def replay(self, queue: str, numbers: Sequence[int]) -> Sequence[Receipt]:
        """Put dead letters back at the end of their partitions, for every group of the queue.

        Each leaves the dead letters in the same change in which it enters the queue, under
        the transaction id that it had. The first that does not exist stops the rest.
        """
        letters = [await self._letter(queue, number) for number in _check_numbers(numbers)]
        receipts: list[Receipt] = []
        for start in range(0, len(letters), _STEP):
            some = letters[start : start + _STEP]
            places = [self._partition(letter) for letter in some]
            outcomes = await asyncio.gather(*map(self._submit_replay, some))
            for letter, place, outcome in zip(some, places, outcomes, strict=True):
                if not isinstance(outcome, Applied):
                    raise DeadLetterNotFound(letter.number)
                (offset,) = outcome.appended[0].offsets
                receipts.append(
                    Receipt(place.name, place.number, offset, False, letter.transaction_id)
                )
        return receipts

    async def replay_all(
        self, queue: str, *, group: str | None = None, partition: str | None = None
    ) -> int:
        """Send back every dead letter there is now, oldest first; return how many."""
        return len(await self.replay(queue, await self._all(queue, group, partition)))

    async def delete(self, queue: str, numbers: Sequence[int]) -> None:
        """Throw dead letters away. If one of them does not exist, none is."""
        config = self._catalogue.queue(queue).config
        removals = tuple(
            DeadLetterRemoval(queue=config.number, number=number)
            for number in _check_numbers(numbers)
        )
        outcome = await self._committer.submit(Change(removals=removals))
        if not isinstance(outcome, Applied):
            for number in numbers:
                await self._letter(queue, number)

    async def delete_all(
        self, queue: str, *, group: str | None = None, partition: str | None = None
    ) -> int:
        """Throw away every dead letter there is now; return how many."""
        numbers = await self._all(queue, group, partition)
        for start in range(0, len(numbers), _STEP):
            await self.delete(queue, numbers[start : start + _STEP])
        return len(numbers)

    def _submit_replay(self, letter: DeadLetter) -> asyncio.Future[Outcome]:
        columns = Columns(
            payloads=[letter.payload],
            transaction_ids=[letter.transaction_id],
            trace_ids=[letter.trace] if letter.trace else None,
            producers=[letter.producer] if letter.producer else None,
            flags=bytes([ENCRYPTED]) if letter.encrypted else None,
        )
        return self._committer.submit(
            Change(
                appends=(
                    Append(
                        queue=letter.queue,
                        partition=letter.partition,
                        columns=columns,
                        replay=True,
                    ),
                ),
                removals=(DeadLetterRemoval(queue=letter.queue, number=letter.number),),
            )
        )

    async def _all(self, queue: str, group: str | None, partition: str | None) -> Sequence[int]:
        which = self._filter(queue, group, partition, None, None)
        numbers: list[int] = []
        before = None
        while letters := await self._store.dead_letters(
            which, before=before, limit=self._limits.page
        ):
            numbers += (letter.number for letter in letters)
            before = letters[-1].number
        return numbers[::-1]

    async def _letter(self, queue: str, number: int) -> DeadLetter:
        config = self._catalogue.queue(queue).config
        check_count("number", number, most=MAX_NUMBER)
        found = await self._store.find_dead_letter(config.number, number)
        if found is None:
            raise DeadLetterNotFound(number)
        return found

    def _filter(
        self,
        queue: str,
        group: str | None,
        partition: str | None,
        from_: datetime | None,
        to: datetime | None,
    ) -> DeadLetterFilter:
        return DeadLetterFilter(
            queue=self._catalogue.queue(queue).config.number,
            group=check_label("group", group),
            partition=None
            if partition is None
            else self._catalogue.partition(queue, partition).number,
            from_at=None if from_ is None else from_datetime("from_", from_),
            to_at=None if to is None else from_datetime("to", to),
        )

    def _partition(self, letter: DeadLetter) -> PartitionState:
        """Where a dead letter came from; its queue may have been deleted a moment ago."""
        found = self._catalogue.partitions.get(letter.partition)
        if found is None:
            raise DeadLetterNotFound(letter.number)
        return found

    def _shown(self, letter: DeadLetter) -> FailedMessage:
        partition = self._partition(letter)
        return FailedMessage(
            number=letter.number,
            queue=partition.queue.config.name,
            partition=partition.name,
            offset=letter.offset,
            message_id=letter.message_id,
            transaction_id=letter.transaction_id,
            trace_id=UUID(bytes=letter.trace) if letter.trace else None,
            group=letter.group,
            error=letter.error,
            attempts=letter.attempts,
            payload=self._reading.payload_of(letter),
            producer=letter.producer,
            created_at=to_datetime(letter.created_at),
            failed_at=to_datetime(letter.failed_at),
        )


def _check_numbers(numbers: Sequence[int]) -> Sequence[int]:
    if isinstance(numbers, str | bytes) or not isinstance(numbers, Sequence):
        raise Invalid("numbers", "must be a sequence of numbers")
    for number in numbers:
        check_count("numbers", number, most=MAX_NUMBER)
    return numbers
