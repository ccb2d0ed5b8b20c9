"""Moving queues from one store to another, while no server runs on either.

It copies: the source stays as it is. Each step is written together with a mark of how far it is, so
one that was interrupted goes on there when it is begun again.
"""

import hashlib
from collections.abc import Iterable, Sequence

import msgspec

from skep.core.transfer.queue_copy import HIDDEN, SPACE, Copy, Mark, Told, mark_entry
from skep.core.transfer.renumber import Numbers, shift_entry, shift_outcome
from skep.errors import Conflict, Invalid, QueueNotFound
from skep.model.dead_letter import DeadLetterFilter
from skep.model.queue import Partition, Queue
from skep.store.bulk_load import BulkLoad, Transferable

_PAGE = 200
_encode = msgspec.msgpack.Encoder().encode


class TransferResult(msgspec.Struct, frozen=True, kw_only=True):
    """What is in the target now; ``ids_kept`` says whether message ids are what they were."""

    queues: int
    messages: int
    dead_letters: int
    ids_kept: bool


class Reserved(msgspec.Struct, frozen=True, array_like=True):
    """Which numbers of the target belong to a source: its own up to ``last``, and ``shift``."""

    shift: int
    last: int


class Transfer:
    """Made by ``prepare``, which looks at both stores and writes nothing."""

    def __init__(
        self, source: Transferable, target: Transferable, copies: Sequence[Copy], *, whole: bool
    ) -> None:
        self._source = source
        self._target = target
        self._copies = copies
        self._whole = whole
        self.messages = 0
        """How many there are still to move."""

    async def run(self, told: Told) -> TransferResult:
        await self._begin()
        for copy in self._copies:
            await copy.run(told)
        if self._whole:
            await self._move_the_rest()
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
        """Make room for what is new, all of it at once: then no server can take its numbers."""
        new = [copy for copy in self._copies if copy.is_new]
        leftovers = {HIDDEN + copy.name for copy in new}
        for queue in await self._target.queues():
            if queue.name in leftovers:
                await self._target.delete_queue(queue.number)
        # Its numbers are used again, so nothing of it may be left.
        while await self._target.purge():
            pass
        last = await self._source.last_number()
        for copy in new:
            reserved = Reserved(copy.mark.shift, last)
            record = mark_entry(f"source/{copy.mark.source}", reserved)
            await copy.begin(reserved.shift + reserved.last, record)

    async def _move_the_rest(self) -> None:
        """Move what belongs to no queue, once: what was taken away since must not come back."""
        digest = hashlib.blake2b(digest_size=16)
        for copy in self._copies:
            digest.update(copy.mark.fingerprint)
        done = mark_entry(f"rest/{(await self._source.stats()).id}", digest.digest())
        found = await self._target.find_entries(SPACE, [done.key])
        if not found or found[0].value != done.value:
            numbers = await self._numbers()
            await self._move_entries(numbers)
            await self._move_outcomes(numbers)
            await self._target.load(BulkLoad(marks=[done]))

    async def _numbers(self) -> Numbers:
        shifts: dict[int, int] = {}
        for copy in self._copies:
            found = await self._source.partitions(copy.mark.queue - copy.mark.shift)
            shifts |= dict.fromkeys((each.number for each in found), copy.mark.shift)
        return lambda partition: partition + shifts.get(partition, 0)

    async def _move_entries(self, numbers: Numbers) -> None:
        place = "", ""
        while found := await self._source.all_entries(after=place, limit=_PAGE):
            place = found[-1].space, found[-1].key
            moved = [shift_entry(each, numbers) for each in found if each.space != SPACE]
            await self._target.load(BulkLoad(entries=moved))

    async def _move_outcomes(self, numbers: Numbers) -> None:
        name = ""
        while found := await self._source.all_outcomes(after=name, limit=_PAGE):
            name = found[-1].name
            moved = [shift_outcome(each, numbers) for each in found]
            await self._target.load(BulkLoad(outcomes=moved))


async def prepare(
    source: Transferable, target: Transferable, names: Sequence[str] = ()
) -> Transfer:
    """Look what is to be done for these queues, or for all.

    Raises ``Conflict`` if a server runs on one of the stores, or if the target holds a queue of
    the same name that is not from this source, or from before the source was used again.
    """
    await _check_alone(source, target)
    store = (await source.stats()).id
    known = {queue.name: queue for queue in await target.queues()}
    looked: list[tuple[Queue, bytes, Mark | None]] = []
    for queue in await _chosen(source, names):
        fingerprint = await _fingerprint(source, queue)
        mark = await _find_mark(target, queue.name)
        if mark and (mark.source, mark.fingerprint) != (store, fingerprint):
            mark = None
        looked.append((queue, fingerprint, _check(queue.name, mark, known)))
    new = [queue for queue, _, mark in looked if mark is None]
    shift = await _choose_shift(source, target, new, store)
    copies = [
        Copy(source, target, queue, mark or Mark(store, print_, shift, queue.number + shift))
        for queue, print_, mark in looked
    ]
    transfer = Transfer(source, target, copies, whole=not names)
    await transfer.count()
    return transfer


async def _check_alone(source: Transferable, target: Transferable) -> None:
    if (await source.stats()).id == (await target.stats()).id:
        raise Invalid("target", "is the source, or a copy of it")
    for name, store in ("source", source), ("target", target):
        if count := await store.others():
            raise Conflict(
                f"{count} other process(es) use the {name}; stop the servers first, and wait a "
                "minute if one was killed"
            )


async def _chosen(source: Transferable, names: Sequence[str]) -> list[Queue]:
    found = {
        queue.name: queue for queue in await source.queues() if not queue.name.startswith(HIDDEN)
    }
    for name in names:
        if name not in found:
            raise QueueNotFound(name)
    return [found[name] for name in dict.fromkeys(names or found)]


def _check(name: str, mark: Mark | None, known: dict[str, Queue]) -> Mark | None:
    """The mark from which a queue goes on; None if it begins anew."""
    there = known.get(name)
    if there:
        if mark and mark.is_done and there.number == mark.queue:
            return mark
        raise Conflict(f"the target already holds a queue {name!r}; nothing was moved")
    hidden = known.get(HIDDEN + name)
    return mark if mark and hidden and hidden.number == mark.queue else None


async def _choose_shift(
    source: Transferable, target: Transferable, new: Sequence[Queue], store: str
) -> int:
    """By how much the numbers of new queues grow, so that none is given twice."""
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
    found = {queue.number for queue in queues}
    for number in list(found):
        found.update(each.number for each in await store.partitions(number))
    return found


async def _find_mark(target: Transferable, name: str) -> Mark | None:
    found = await target.find_entries(SPACE, [f"queue/{name}"])
    return msgspec.msgpack.decode(found[0].value, type=Mark) if found else None


async def _find_reserved(target: Transferable, store: str) -> Reserved | None:
    found = await target.find_entries(SPACE, [f"source/{store}"])
    return msgspec.msgpack.decode(found[0].value, type=Reserved) if found else None


async def _fingerprint(source: Transferable, queue: Queue) -> bytes:
    """The same as long as nobody pushes, pops, acknowledges or configures."""
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
