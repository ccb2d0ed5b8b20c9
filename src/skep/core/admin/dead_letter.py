"""Dead letters: list, replay and delete them."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from uuid import UUID

from skep.core.admin.dead_letter_replay import DeadLetterReplayer, partition_of
from skep.core.cluster.peer_sync import PeerSync, current
from skep.core.limits import Limits
from skep.core.log.committer import Committer
from skep.core.log.segment_reader import SegmentReader
from skep.core.state.registry import Registry
from skep.errors import DeadLetterNotFound, Invalid, OutcomeUnknown, SkepError
from skep.model.change import Applied, Change, DeadLetterRemoval
from skep.model.dead_letter import DeadLetter, DeadLetterFilter, FailedMessage
from skep.model.message import Receipt
from skep.model.name import MAX_NUMBER, check_count, check_label, from_datetime, to_datetime
from skep.store.protocol import DeadLetterStore

_STEP = 200
_STEP_BYTES = 1 << 20
"""Dead letters replayed or deleted at a time, and bytes, unless one alone has more."""

_PAGE = 50
"""Dead letters read at a time to learn their numbers: each may be as large as a payload."""


class DeadLetters:
    def __init__(
        self,
        store: DeadLetterStore,
        registry: Registry,
        peer_sync: PeerSync,
        committer: Committer,
        segment_reader: SegmentReader,
        replayer: DeadLetterReplayer,
        limits: Limits,
    ) -> None:
        self._peer_sync = peer_sync
        self._replayer = replayer
        self._store = store
        self._registry = registry
        self._committer = committer
        self._segment_reader = segment_reader
        self._limits = limits

    @current
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
        """Dead letters, newest first. ``before`` is the last number of the previous page."""
        limit = self._limits.check_page(limit)
        if before is not None:
            check_count("before", before, most=MAX_NUMBER)
        which = self._filter(queue, group, partition, from_, to)
        dead_letters = await self._store.dead_letters(which, before=before, limit=limit)
        return [self._shown(dead_letter) for dead_letter in dead_letters]

    @current
    async def count(
        self,
        queue: str,
        *,
        group: str | None = None,
        partition: str | None = None,
        from_: datetime | None = None,
        to: datetime | None = None,
    ) -> int:
        """How many dead letters match the filter of ``list``."""
        return await self._store.count_dead_letters(
            self._filter(queue, group, partition, from_, to)
        )

    @current
    async def get(self, queue: str, number: int) -> FailedMessage:
        """One dead letter by its number."""
        return self._shown(await self._dead_letter(queue, number))

    @current
    async def replay(self, queue: str, numbers: Sequence[int]) -> Sequence[Receipt]:
        """Append dead letters to the end of their partitions, for every group of the queue.

        Each is deleted in the same change in which it enters the queue, under the transaction
        id that it had. If one of them does not exist, none is replayed.

        Many are replayed in steps, in the order given, each step all or nothing. A failure after
        the first step raises ``OutcomeUnknown`` with the failure as its cause: what was not
        replayed is still a dead letter, and can be listed and replayed.
        """
        for number in _check_numbers(numbers):
            await self._dead_letter(queue, number)
        return [receipt async for step in self._replay(queue, numbers) for receipt in step]

    @current
    async def replay_all(
        self, queue: str, *, group: str | None = None, partition: str | None = None
    ) -> int:
        """Replay every dead letter that exists now, oldest first; return how many."""
        numbers = await self._all(queue, group, partition)
        return sum([len(step) async for step in self._replay(queue, numbers, named=False)])

    @current
    async def delete(self, queue: str, numbers: Sequence[int]) -> None:
        """Delete dead letters. If one of them does not exist, none is deleted."""
        config = self._registry.any_queue(queue).config
        removals = tuple(
            DeadLetterRemoval(queue=config.number, number=number)
            for number in _check_numbers(numbers)
        )
        outcome = await self._committer.submit(Change(removals=removals))
        if not isinstance(outcome, Applied):
            for number in numbers:
                await self._dead_letter(queue, number)

    @current
    async def delete_all(
        self, queue: str, *, group: str | None = None, partition: str | None = None
    ) -> int:
        """Delete every dead letter that exists now, in steps; return how many.

        As with ``replay``, a failure after the first step raises ``OutcomeUnknown``.
        """
        left = list(await self._all(queue, group, partition))
        total, done = len(left), 0
        while step := left[:_STEP]:
            with _unless_begun(done, total):
                try:
                    await self.delete(queue, step)
                except DeadLetterNotFound as missing:
                    left.remove(missing.number)
                    continue
            del left[: len(step)]
            done += len(step)
        return done

    async def _replay(
        self, queue: str, numbers: Sequence[int], *, named: bool = True
    ) -> AsyncIterator[Sequence[Receipt]]:
        """Replay dead letters in steps; skip missing ones unless the caller named them."""
        left, done = list(numbers), 0
        while left:
            with _unless_begun(done, len(numbers)):
                try:
                    step = await self._step(queue, left[:_STEP])
                    receipts = await self._replayer.replay(step)
                except DeadLetterNotFound as missing:
                    if named:
                        raise
                    left.remove(missing.number)
                    continue
            del left[: len(step)]
            done += len(step)
            yield receipts

    async def _step(self, queue: str, numbers: Sequence[int]) -> Sequence[DeadLetter]:
        """The first dead letters that are replayed in one step, at least one."""
        dead_letters: list[DeadLetter] = []
        size = 0
        for number in numbers:
            dead_letter = await self._dead_letter(queue, number)
            size += len(dead_letter.payload)
            if dead_letters and size > _STEP_BYTES:
                break
            dead_letters.append(dead_letter)
        return dead_letters

    async def _all(self, queue: str, group: str | None, partition: str | None) -> Sequence[int]:
        which = self._filter(queue, group, partition, None, None)
        numbers: list[int] = []
        before = None
        while dead_letters := await self._store.dead_letters(which, before=before, limit=_PAGE):
            numbers += (dead_letter.number for dead_letter in dead_letters)
            before = dead_letters[-1].number
        return numbers[::-1]

    async def _dead_letter(self, queue: str, number: int) -> DeadLetter:
        config = self._registry.any_queue(queue).config
        check_count("number", number, most=MAX_NUMBER)
        dead_letter = await self._store.find_dead_letter(config.number, number)
        if dead_letter is None:
            raise DeadLetterNotFound(number)
        return dead_letter

    def _filter(
        self,
        queue: str,
        group: str | None,
        partition: str | None,
        from_: datetime | None,
        to: datetime | None,
    ) -> DeadLetterFilter:
        return DeadLetterFilter(
            queue=self._registry.any_queue(queue).config.number,
            group=check_label("group", group),
            partition=None
            if partition is None
            else self._registry.partition(queue, partition).number,
            from_at=None if from_ is None else from_datetime("from_", from_),
            to_at=None if to is None else from_datetime("to", to),
        )

    def _shown(self, dead_letter: DeadLetter) -> FailedMessage:
        partition = partition_of(self._registry, dead_letter)
        return FailedMessage(
            number=dead_letter.number,
            queue=partition.queue.config.name,
            partition=partition.name,
            offset=dead_letter.offset,
            message_id=dead_letter.message_id,
            transaction_id=dead_letter.transaction_id,
            trace_id=UUID(bytes=dead_letter.trace) if dead_letter.trace else None,
            group=dead_letter.group,
            error=dead_letter.error,
            attempts=dead_letter.attempts,
            payload=self._segment_reader.payload_of(dead_letter),
            producer=dead_letter.producer,
            created_at=to_datetime(dead_letter.created_at),
            failed_at=to_datetime(dead_letter.failed_at),
        )


def _check_numbers(numbers: Sequence[int]) -> Sequence[int]:
    if isinstance(numbers, str | bytes) or not isinstance(numbers, Sequence):
        raise Invalid("numbers", "must be a sequence of numbers")
    for number in numbers:
        check_count("numbers", number, most=MAX_NUMBER)
    if len(set(numbers)) < len(numbers):
        raise Invalid("numbers", "must not name a dead letter twice")
    return numbers


@contextmanager
def _unless_begun(done: int, total: int) -> Iterator[None]:
    """Raise ``OutcomeUnknown`` after the first step: most errors say that nothing was written."""
    try:
        yield
    except SkepError as error:
        if not done:
            raise
        raise OutcomeUnknown(f"stopped after {done} of {total} dead letters: {error}") from error
