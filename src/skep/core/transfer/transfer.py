"""Copies queues from one store to another, while no server runs on either.

The source does not change. Each step is written together with a mark of the progress, so an
interrupted transfer continues there when it is started again.
"""

import hashlib
from collections.abc import Iterable, Sequence

import msgspec

from skep.core.transfer.queue_copy import HIDDEN, SPACE, Copy, Mark, OnStep, mark_entry
from skep.core.transfer.renumber import Numbers, shift_entry, shift_outcome
from skep.errors import Conflict, Invalid, QueueNotFound
from skep.model.dead_letter import DeadLetterFilter
from skep.model.queue import Partition, Queue
from skep.store.bulk_load import BulkLoad, Transferable

_PAGE = 200
_encode = msgspec.msgpack.Encoder().encode


class TransferResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the target has now; ``ids_kept`` says whether message ids are unchanged."""

    queues: int
    messages: int
    dead_letters: int
    ids_kept: bool


class Reserved(msgspec.Struct, frozen=True, array_like=True):
    """The numbers of the target that belong to a source: up to ``last``, plus ``shift``."""

    shift: int
    last: int


class Transfer:
    """A transfer of queues, made by ``prepare``, which reads both stores and writes nothing."""

    def __init__(
        self, source: Transferable, target: Transferable, copies: Sequence[Copy], *, whole: bool
    ) -> None:
        self._source = source
        self._target = target
        self._copies = copies
        self._whole = whole
        self.messages = 0
        """How many are left to copy."""

    async def run(self, on_step: OnStep) -> TransferResult:
        await self._begin()
        for copy in self._copies:
            await copy.run(on_step)
        if self._whole:
            await self._copy_rest()
        marks = [copy.mark for copy in self._copies]
        return TransferResult(
            queues=len(marks),
            messages=sum(mark.messages for mark in marks),
            dead_letters=sum(mark.dead_letters for mark in marks),
            ids_kept=all(mark.shift == 0 for mark in marks),
        )

    async def count(self) -> None:
        for copy in self._copies:
            kept = await self._source.partitions(copy.mark.queue - copy.mark.shift)
            if not copy.mark.is_done:
                self.messages += _size(kept) - copy.mark.messages

    async def _begin(self) -> None:
        """Reserve the numbers of new queues before anything is copied."""
        new = [copy for copy in self._copies if copy.is_new]
        leftovers = {HIDDEN + copy.name for copy in new}
        for queue in await self._target.queues():
            if queue.name in leftovers:
                await self._target.delete_queue(queue.number)
        # Its numbers are used again, so nothing of it may remain.
        while await self._target.purge():
            pass
        last = await self._source.last_number()
        for copy in new:
            reserved = Reserved(copy.mark.shift, last)
            record = mark_entry(f"source/{copy.mark.source}", reserved)
            await copy.begin(reserved.shift + reserved.last, record)

    async def _copy_rest(self) -> None:
        """Copy what belongs to no queue, once: what was deleted since must not come back."""
        digest = hashlib.blake2b(digest_size=16)
        for copy in self._copies:
            digest.update(copy.mark.fingerprint)
        done = mark_entry(f"rest/{(await self._source.stats()).id}", digest.digest())
        marks = await self._target.find_entries(SPACE, [done.key])
        if not marks or marks[0].value != done.value:
            numbers = await self._numbers()
            await self._copy_entries(numbers)
            await self._copy_outcomes(numbers)
            await self._target.load(BulkLoad(marks=[done]))

    async def _numbers(self) -> Numbers:
        shifts: dict[int, int] = {}
        for copy in self._copies:
            partitions = await self._source.partitions(copy.mark.queue - copy.mark.shift)
            shifts |= dict.fromkeys((each.number for each in partitions), copy.mark.shift)
        return lambda partition: partition + shifts.get(partition, 0)

    async def _copy_entries(self, numbers: Numbers) -> None:
        last = "", ""
        while page := await self._source.all_entries(after=last, limit=_PAGE):
            last = page[-1].space, page[-1].key
            moved = [shift_entry(each, numbers) for each in page if each.space != SPACE]
            await self._target.load(BulkLoad(entries=moved))

    async def _copy_outcomes(self, numbers: Numbers) -> None:
        name = ""
        while page := await self._source.all_outcomes(after=name, limit=_PAGE):
            name = page[-1].name
            moved = [shift_outcome(each, numbers) for each in page]
            await self._target.load(BulkLoad(outcomes=moved))


async def prepare(
    source: Transferable, target: Transferable, names: Sequence[str] = ()
) -> Transfer:
    """The transfer of these queues, or of all.

    Raises ``Conflict`` if a server runs on one of the stores, or if the target has a queue of
    the same name that is not from this source, or was copied before the source changed.
    """
    await _check_no_servers(source, target)
    store = (await source.stats()).id
    existing = {queue.name: queue for queue in await target.queues()}
    checked: list[tuple[Queue, bytes, Mark | None]] = []
    for queue in await _chosen(source, names):
        fingerprint = await _fingerprint(source, queue)
        mark = await _find_mark(target, queue.name)
        if mark and (mark.source, mark.fingerprint) != (store, fingerprint):
            mark = None
        checked.append((queue, fingerprint, _check(queue.name, mark, existing)))
    new = [queue for queue, _, mark in checked if mark is None]
    shift = await _choose_shift(source, target, new, store)
    copies = [
        Copy(source, target, queue, mark or Mark(store, fingerprint, shift, queue.number + shift))
        for queue, fingerprint, mark in checked
    ]
    transfer = Transfer(source, target, copies, whole=not names)
    await transfer.count()
    return transfer


async def _check_no_servers(source: Transferable, target: Transferable) -> None:
    if (await source.stats()).id == (await target.stats()).id:
        raise Invalid("target", "is the source, or a copy of it")
    for name, store in ("source", source), ("target", target):
        if count := await store.others():
            raise Conflict(
                f"{count} other process(es) use the {name}; stop the servers first, and wait a "
                "minute if one was killed"
            )


async def _chosen(source: Transferable, names: Sequence[str]) -> list[Queue]:
    queues = {
        queue.name: queue for queue in await source.queues() if not queue.name.startswith(HIDDEN)
    }
    for name in names:
        if name not in queues:
            raise QueueNotFound(name)
    return [queues[name] for name in dict.fromkeys(names or queues)]


def _check(name: str, mark: Mark | None, existing: dict[str, Queue]) -> Mark | None:
    """The mark from which a queue continues; None if it is copied from the start."""
    queue = existing.get(name)
    if queue:
        if mark and mark.is_done and queue.number == mark.queue:
            return mark
        raise Conflict(f"the target already has a queue {name!r}; nothing was copied")
    hidden = existing.get(HIDDEN + name)
    return mark if mark and hidden and hidden.number == mark.queue else None


async def _choose_shift(
    source: Transferable, target: Transferable, new: Sequence[Queue], store: str
) -> int:
    """By how much the numbers of new queues grow, so that none is used twice."""
    if not new:
        return 0
    leftovers = {HIDDEN + queue.name for queue in new}
    others = [queue for queue in await target.queues() if queue.name not in leftovers]
    record = await _find_reserved(target, store)
    last, used = await source.last_number(), await target.last_number()
    if record and (last <= record.last or used <= record.shift + record.last):
        taken, wanted = await _numbers(target, others), await _numbers(source, new)
        if taken.isdisjoint(number + record.shift for number in wanted):
            return record.shift
    return 0 if used < min(queue.number for queue in new) else used


async def _numbers(store: Transferable, queues: Iterable[Queue]) -> set[int]:
    """The numbers of queues and of their partitions."""
    numbers = {queue.number for queue in queues}
    for number in list(numbers):
        numbers.update(each.number for each in await store.partitions(number))
    return numbers


async def _find_mark(target: Transferable, name: str) -> Mark | None:
    entries = await target.find_entries(SPACE, [f"queue/{name}"])
    return msgspec.msgpack.decode(entries[0].value, type=Mark) if entries else None


async def _find_reserved(target: Transferable, store: str) -> Reserved | None:
    entries = await target.find_entries(SPACE, [f"source/{store}"])
    return msgspec.msgpack.decode(entries[0].value, type=Reserved) if entries else None


async def _fingerprint(source: Transferable, queue: Queue) -> bytes:
    """A digest of a queue that changes with every push, pop, ack and configuration."""
    digest = hashlib.blake2b(_encode(queue), digest_size=16)
    dead_letters = await source.count_dead_letters(DeadLetterFilter(queue=queue.number))
    digest.update(_encode((sorted((await source.heads(queue.number)).items()), dead_letters)))
    for partition in await source.partitions(queue.number):
        digest.update(_encode(partition))
    for subscription in await source.subscriptions(queue.number):
        digest.update(_encode(subscription))
    for consumer in await source.consumers(queue.number):
        digest.update(_encode(consumer))
    return digest.digest()


def _size(partitions: Iterable[Partition]) -> int:
    return sum(partition.end - partition.start for partition in partitions)
