"""Dead letters: looking at them, sending them back, throwing them away."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from uuid import UUID

from skep.core.aio import Backoff
from skep.core.cluster.maintenance_mode import NORMAL_PUSH, MaintenanceMode
from skep.core.cluster.peer_sync import PeerSync, current
from skep.core.limits import Limits
from skep.core.log.committer import Committer
from skep.core.log.encryption import KeyRing, place_of
from skep.core.log.segment_reader import SegmentReader
from skep.core.state.queue_state import PartitionState
from skep.core.state.registry import Registry
from skep.errors import DeadLetterNotFound, Invalid, OutcomeUnknown, SkepError
from skep.model.change import Append, Applied, Change, DeadLetterRemoval
from skep.model.dead_letter import DeadLetter, DeadLetterFilter, FailedMessage
from skep.model.message import Receipt
from skep.model.name import MAX_NUMBER, check_count, check_label, from_datetime, to_datetime
from skep.model.segment import ENCRYPTED, Columns
from skep.store.protocol import DeadLetterStore

_STEP = 200
_STEP_BYTES = 1 << 20
"""Dead letters sent back or removed at a time, and bytes, unless one alone has more."""

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
        mode: MaintenanceMode,
        keys: KeyRing,
        limits: Limits,
    ) -> None:
        self._peer_sync = peer_sync
        self._mode = mode
        self._keys = keys
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
        """Newest first. ``before`` is the number of the last one of the page before."""
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
        """How many there are, with the filter of ``list``."""
        return await self._store.count_dead_letters(
            self._filter(queue, group, partition, from_, to)
        )

    @current
    async def get(self, queue: str, number: int) -> FailedMessage:
        """One dead letter by its number."""
        return self._shown(await self._dead_letter(queue, number))

    @current
    async def replay(self, queue: str, numbers: Sequence[int]) -> Sequence[Receipt]:
        """Put dead letters back at the end of their partitions, for every group of the queue.

        Each leaves the dead letters in the same change in which it enters the queue, under
        the transaction id that it had. If one of them does not exist, none is sent back.

        Many go back in steps, in the order given, each step wholly or not at all. If something
        stops it after a step, that is ``OutcomeUnknown``, with what stopped it as its cause:
        what has not gone back is still a dead letter, and can be listed and sent back.
        """
        for number in _check_numbers(numbers):
            await self._dead_letter(queue, number)
        return [receipt async for step in self._replay(queue, numbers) for receipt in step]

    @current
    async def replay_all(
        self, queue: str, *, group: str | None = None, partition: str | None = None
    ) -> int:
        """Like ``replay``, every dead letter there is now, oldest first; return how many."""
        numbers = await self._all(queue, group, partition)
        return sum([len(step) async for step in self._replay(queue, numbers, named=False)])

    @current
    async def delete(self, queue: str, numbers: Sequence[int]) -> None:
        """Throw dead letters away. If one of them does not exist, none is."""
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
        """Throw away every dead letter there is now, in steps; return how many.

        As with ``replay``, what stops it after a step is ``OutcomeUnknown``.
        """
        left = list(await self._all(queue, group, partition))
        total, done = len(left), 0
        while step := left[:_STEP]:
            with _unless_begun(done, total):
                try:
                    await self.delete(queue, step)
                except DeadLetterNotFound as gone:
                    left.remove(gone.number)
                    continue
            del left[: len(step)]
            done += len(step)
        return done

    async def _replay(
        self, queue: str, numbers: Sequence[int], *, named: bool = True
    ) -> AsyncIterator[Sequence[Receipt]]:
        """Send dead letters back in steps. Those that the caller did not name may be gone."""
        left, done = list(numbers), 0
        while left:
            with _unless_begun(done, len(numbers)):
                try:
                    step = await self._step(queue, left[:_STEP])
                    receipts = await self._send_back(step)
                except DeadLetterNotFound as gone:
                    if named:
                        raise
                    left.remove(gone.number)
                    continue
            del left[: len(step)]
            done += len(step)
            yield receipts

    async def _step(self, queue: str, numbers: Sequence[int]) -> Sequence[DeadLetter]:
        """As many of the first as go back at a time, at least one."""
        dead_letters: list[DeadLetter] = []
        size = 0
        for number in numbers:
            dead_letter = await self._dead_letter(queue, number)
            size += len(dead_letter.payload)
            if dead_letters and size > _STEP_BYTES:
                break
            dead_letters.append(dead_letter)
        return dead_letters

    async def _send_back(self, dead_letters: Sequence[DeadLetter]) -> Sequence[Receipt]:
        backoff = Backoff("the same dead letters")
        while True:
            await self._mode.check_normal()
            places = [self._partition(dead_letter) for dead_letter in dead_letters]
            queues = {place.queue.versions[0] for place in places}
            change = Change(
                appends=tuple(map(self._append, dead_letters, places)),
                removals=tuple(
                    DeadLetterRemoval(queue=dead_letter.queue, number=dead_letter.number)
                    for dead_letter in dead_letters
                ),
                queues=tuple(queues),
                based_on=NORMAL_PUSH,
            )
            outcome = await self._committer.submit(change)
            if isinstance(outcome, Applied):
                break
            await self._check_present(dead_letters)
            await backoff.pause()
        return [
            Receipt(place.name, place.number, where.offsets[0], False, dead_letter.transaction_id)
            for dead_letter, place, where in zip(
                dead_letters, places, outcome.appended, strict=True
            )
        ]

    async def _check_present(self, dead_letters: Sequence[DeadLetter]) -> None:
        for dead_letter in dead_letters:
            if await self._store.find_dead_letter(dead_letter.queue, dead_letter.number) is None:
                raise DeadLetterNotFound(dead_letter.number)

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
            queue=self._registry.any_queue(queue).config.number,
            group=check_label("group", group),
            partition=None
            if partition is None
            else self._registry.partition(queue, partition).number,
            from_at=None if from_ is None else from_datetime("from_", from_),
            to_at=None if to is None else from_datetime("to", to),
        )

    def _partition(self, dead_letter: DeadLetter) -> PartitionState:
        """Where a dead letter came from; its queue may have been deleted a moment ago."""
        found = self._registry.find_partition(dead_letter.partition)
        if found is None:
            raise DeadLetterNotFound(dead_letter.number)
        return found

    def _append(self, dead_letter: DeadLetter, place: PartitionState) -> Append:
        payload, encrypted = dead_letter.payload, dead_letter.encrypted
        if not encrypted and place.queue.config.options.encryption_enabled:
            # The queue was not encrypted yet when the message was pushed.
            bound_to = place_of(place.queue.config.name, place.name, dead_letter.transaction_id)
            payload, encrypted = self._keys.encrypt(payload, bound_to), True
        columns = Columns(
            payloads=[payload],
            transaction_ids=[dead_letter.transaction_id],
            trace_ids=[dead_letter.trace] if dead_letter.trace else None,
            producers=[dead_letter.producer] if dead_letter.producer else None,
            flags=bytes([ENCRYPTED]) if encrypted else None,
        )
        return Append(
            queue=dead_letter.queue, partition=dead_letter.partition, columns=columns, replay=True
        )

    def _shown(self, dead_letter: DeadLetter) -> FailedMessage:
        partition = self._partition(dead_letter)
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
    """Most errors say that nothing was written: that is true only before the first step."""
    try:
        yield
    except SkepError as error:
        if not done:
            raise
        raise OutcomeUnknown(f"it stopped after {done} of {total} dead letters: {error}") from error
