"""Publishing what a sink has staged: each version of an app once, whoever dies or comes twice.

A version that is not too large is one change: its messages, the app's progress, the chunks that
are no longer staged. A larger one is decided in a change without messages, and then published in
steps, each of which moves the app's progress on from where it has read it. So it does not matter
who takes a step, nor how many try: whoever comes next goes on.
"""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from msgspec.structs import replace

from skep.core import ledger
from skep.core.backoff import Backoff
from skep.core.capacity import FillLevel
from skep.core.catalogue import Catalogue
from skep.core.chunks import Group, decode
from skep.core.committer import Committer
from skep.core.encryption import KeyRing
from skep.core.following import Following
from skep.core.ledger import Account, Decision, Piece, Progress, Staged
from skep.core.limits import Limits
from skep.core.mode import NORMAL_PUSH
from skep.core.quota import without_limits
from skep.core.state import QueueState
from skep.errors import Corrupted
from skep.model.change import Append, Applied, Capacity, Change, EntryUpdate, QueueVersion
from skep.model.queue import Queue
from skep.model.segment import Columns, concat
from skep.store.protocol import Store


class _Publication(NamedTuple):
    """Messages to be appended, and the queues and configurations that this was decided on."""

    appends: tuple[Append, ...]
    queues: tuple[QueueState, ...]
    versions: tuple[QueueVersion, ...]


class Publishing:
    def __init__(
        self,
        store: Store,
        catalogue: Catalogue,
        following: Following,
        committer: Committer,
        level: FillLevel,
        keys: KeyRing,
        limits: Limits,
    ) -> None:
        self._following = following
        self._level = level
        self._store = store
        self._catalogue = catalogue
        self._committer = committer
        self._keys = keys
        self._limits = limits

    async def publish(
        self, account: Account, progress: Progress, known: int, staged: Sequence[Staged]
    ) -> bool:
        """Publish chunks, so that the app has this progress; its entry has the version ``known``.

        False, and nothing, if the chunks or the progress are no longer as they were read.
        """
        pieces = [each.piece for each in staged]
        await self._check_room(pieces)
        taken = [each.taken() for each in staged]
        if self._is_small(pieces):
            self._committer.check(sum(piece.size for piece in pieces))
            done = ledger.put_progress(account, progress, known)
            return await self._publish_at_once(done, pieces, taken)
        self._catalogue.quotas.check_later(dict.fromkeys(_counts(pieces), ()))
        assert progress.version is not None
        entries = (
            ledger.put_progress(account, replace(progress, done=0), known),
            ledger.put_decision(account, Decision(progress.version, pieces)),
            *taken,
        )
        outcome = await self._committer.submit(Change(entries=entries))
        return isinstance(outcome, Applied)

    async def finish(self, account: Account) -> tuple[Progress | None, int]:
        """Publish what is left of the version that was decided last.

        Returns the progress of the app, and the version of the entry that says so. What was
        decided is not for the quota of who comes next to stop.
        """
        with without_limits():
            return await self._finish(account)

    async def _finish(self, account: Account) -> tuple[Progress | None, int]:
        backoff = Backoff(f"what {account.app!r} publishes")
        while True:
            self._catalogue.check_open()
            progress, known = await ledger.read_progress(self._store, account)
            if progress is None or progress.done is None:
                return progress, known
            if await self._step(account, progress, progress.done, known):
                backoff.reset()
            else:
                await backoff.pause()

    async def _step(self, account: Account, progress: Progress, done: int, known: int) -> bool:
        decision = await ledger.read_decision(self._store, account)
        if decision is None:
            return False
        pieces = list(self._next(decision.pieces[done:]))
        publication = await self._publication(pieces)
        if publication is None:
            await self._check_moved(account, known)
            return False
        done += len(pieces)
        is_last = done == len(decision.pieces)
        moved = replace(progress, version=decision.version, done=None if is_last else done)
        entries = [ledger.put_progress(account, moved, known), *ledger.drop_data(pieces)]
        if is_last:
            entries.append(ledger.put_decision(account, None))
        return await self._commit(publication, entries)

    async def _check_moved(self, account: Account, known: int) -> None:
        """Raise, if nobody else can have published what is not there."""
        if (await ledger.read_progress(self._store, account))[1] == known:
            raise Corrupted(f"a chunk that {account.app!r} has staged is missing; restore a backup")

    async def _publish_at_once(
        self, progress: EntryUpdate, pieces: list[Piece], taken: list[EntryUpdate]
    ) -> bool:
        publication = await self._publication(pieces)
        if publication is None:
            return False
        capacity: list[Capacity] = []
        for queue in publication.queues:
            capacity += await self._level.capacity(queue, _counts(pieces)[queue.config.name])
        entries = [progress, *taken, *ledger.drop_data(pieces)]
        return await self._commit(publication, entries, capacity)

    async def _commit(
        self,
        publication: _Publication,
        entries: Sequence[EntryUpdate],
        capacity: Sequence[Capacity] = (),
    ) -> bool:
        change = Change(
            appends=publication.appends,
            entries=tuple(entries),
            queues=publication.versions,
            based_on=NORMAL_PUSH,
            capacity=tuple(capacity),
        )
        return isinstance(await self._committer.submit(change), Applied)

    async def _publication(self, pieces: Sequence[Piece]) -> _Publication | None:
        """The messages of chunks, by partition; None if a chunk or a queue is gone."""
        data = await ledger.read_data(self._store, pieces)
        if data is None:
            return None
        queues = {name: await self._catalogue.ensure_queue(name) for name in _counts(pieces)}
        configs = {name: queue.config for name, queue in queues.items()}
        versions = tuple(queue.versions[0] for queue in queues.values())
        by_partition: dict[tuple[str, str], list[Columns]] = {}
        for value in data:
            chunk = decode(value)
            for group in chunk.groups:
                sealed = self.sealed(group, configs[group.queue])
                place = group.queue, group.partition
                by_partition.setdefault(place, []).append(sealed.columns(chunk.producer))
            # Others have their turn: a chunk takes some milliseconds.
            await asyncio.sleep(0)
        for name, queue in queues.items():
            partitions = [partition for owner, partition in by_partition if owner == name]
            if not await self._catalogue.ensure_partitions(queue, partitions):
                await self._following.look_at(queue.config.number)
                return None
        if not all(partition in queues[name].partitions for name, partition in by_partition):
            return None  # deleted while partitions of another were created
        appends = tuple(
            Append(
                queue=configs[name].number,
                partition=queues[name].partitions[partition].number,
                columns=concat(parts),
            )
            for (name, partition), parts in by_partition.items()
        )
        return _Publication(appends, tuple(queues.values()), versions)

    def sealed(self, group: Group, config: Queue | None) -> Group:
        """A group as its queue wants it: encrypted, also if it was staged before the queue was."""
        encrypted = config is not None and config.options.encryption_enabled
        return group.sealed(self._keys) if encrypted else group

    async def _check_room(self, pieces: Sequence[Piece]) -> None:
        """Refuse the whole before anything is created for it."""
        for name, count in _counts(pieces).items():
            if queue := self._catalogue.queues.get(name):
                await self._level.capacity(queue, count)

    def _is_small(self, pieces: Sequence[Piece]) -> bool:
        return (
            sum(piece.size for piece in pieces) <= self._limits.publish_bytes
            and sum(piece.rows for piece in pieces) <= self._limits.publish_messages
        )

    def _next(self, pieces: Sequence[Piece]) -> Iterator[Piece]:
        """As many of the first as make a step, but one at least."""
        sizes = accumulate(piece.size for piece in pieces)
        rows = accumulate(piece.rows for piece in pieces)
        for index, (piece, size, count) in enumerate(zip(pieces, sizes, rows, strict=True)):
            too_much = (
                size > self._limits.publish_bytes // 4 or count > self._limits.publish_messages // 4
            )
            if index and too_much:
                return
            yield piece


def _counts(pieces: Sequence[Piece]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for piece in pieces:
        for queue, count in piece.queues.items():
            counts[queue] = counts.get(queue, 0) + count
    return counts
