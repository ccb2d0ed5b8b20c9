"""Publishing what a sink has staged: each version of an app once, whoever dies or comes twice.

A version that is not too large is one change: its messages, the app's progress, the chunks that
are no longer staged. A larger one is decided in a change without messages, and then published in
steps, each of which moves the app's progress on from where it has read it. So it does not matter
who takes a step, nor how many try: whoever comes next goes on.
"""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import accumulate

from msgspec.structs import replace

from skep.core import ledger
from skep.core.catalogue import Catalogue
from skep.core.chunks import Group, decode
from skep.core.committer import Committer
from skep.core.encryption import KeyRing
from skep.core.ledger import Account, Decision, Epoch, Piece, Progress, Staged
from skep.core.limits import Limits
from skep.core.state import Room
from skep.errors import Conflict, Corrupted
from skep.model.change import Append, Applied, Change, EntryUpdate
from skep.model.segment import Columns, concat
from skep.store.protocol import Store

ATTEMPTS = 50
"""Tries in a row that somebody else's write makes obsolete before we stop."""


class Publishing:
    def __init__(
        self,
        store: Store,
        catalogue: Catalogue,
        committer: Committer,
        keys: KeyRing,
        limits: Limits,
    ) -> None:
        self._store = store
        self._catalogue = catalogue
        self._committer = committer
        self._keys = keys
        self._limits = limits

    async def publish(
        self, epoch: Epoch, owner: str | None, known: int, staged: Sequence[Staged]
    ) -> bool:
        """Publish chunks as a version of an app, whose progress has the version ``known``.

        False, and nothing, if the chunks or the progress are no longer as they were read.
        """
        pieces = [each.piece for each in staged]
        self._check_room(pieces)
        taken = [each.taken() for each in staged]
        if self._is_small(pieces):
            self._committer.check(sum(piece.size for piece in pieces))
            progress = ledger.put_progress(
                epoch.account, Progress(epoch.number, owner=owner), known
            )
            return await self._publish_at_once(progress, pieces, taken)
        entries = (
            ledger.put_progress(epoch.account, Progress(epoch.number, 0, owner), known),
            ledger.put_decision(epoch.account, Decision(epoch.number, pieces)),
            *taken,
        )
        outcome = await self._committer.submit(Change(entries=entries))
        return isinstance(outcome, Applied)

    async def finish(self, account: Account) -> tuple[Progress | None, int]:
        """Publish what is left of the version that was decided last.

        Returns the progress of the app, and the version of the entry that says so.
        """
        attempts = 0
        while attempts < ATTEMPTS:
            self._catalogue.check_open()
            progress, known = await ledger.read_progress(self._store, account)
            if progress is None or progress.done is None:
                return progress, known
            moved = await self._step(account, progress, progress.done, known)
            attempts = 0 if moved else attempts + 1
        raise Conflict(f"others keep publishing for {account.app!r}; try again")

    async def _step(self, account: Account, progress: Progress, done: int, known: int) -> bool:
        decision = await ledger.read_decision(self._store, account)
        if decision is None:
            return False
        pieces = list(self._next(decision.pieces[done:]))
        appends = await self._appends(pieces)
        if appends is None:
            await self._check_moved(account, known)
            return False
        done += len(pieces)
        is_last = done == len(decision.pieces)
        moved = replace(progress, version=decision.version, done=None if is_last else done)
        entries = [ledger.put_progress(account, moved, known), *ledger.drop_data(pieces)]
        if is_last:
            entries.append(ledger.put_decision(account, None))
        return await self._commit(appends, entries)

    async def _check_moved(self, account: Account, known: int) -> None:
        """Raise, if nobody else can have published what is not there."""
        if (await ledger.read_progress(self._store, account))[1] == known:
            raise Corrupted(f"a chunk that {account.app!r} has staged is missing; restore a backup")

    async def _publish_at_once(
        self, progress: EntryUpdate, pieces: list[Piece], taken: list[EntryUpdate]
    ) -> bool:
        appends = await self._appends(pieces)
        if appends is None:
            return False
        room = Room()
        try:
            for name, count in _counts(pieces).items():
                room.take(await self._catalogue.ensure_queue(name), count)
        except BaseException:
            room.give_back()
            raise
        return await self._commit(appends, [progress, *taken, *ledger.drop_data(pieces)], room)

    async def _commit(
        self, appends: Sequence[Append], entries: Sequence[EntryUpdate], room: Room | None = None
    ) -> bool:
        change = Change(appends=tuple(appends), entries=tuple(entries))
        outcome = await self._committer.submit(change, room.give_back if room else None)
        return isinstance(outcome, Applied)

    async def _appends(self, pieces: Sequence[Piece]) -> list[Append] | None:
        """The messages of chunks, by partition; None if a chunk is gone."""
        data = await ledger.read_data(self._store, pieces)
        if data is None:
            return None
        by_queue: dict[str, dict[str, list[Columns]]] = {}
        for value in data:
            chunk = decode(value)
            for group in chunk.groups:
                columns = self.sealed(group).columns(chunk.producer)
                by_queue.setdefault(group.queue, {}).setdefault(group.partition, []).append(columns)
            # Others have their turn: a chunk takes some milliseconds.
            await asyncio.sleep(0)
        appends: list[Append] = []
        for name, by_partition in by_queue.items():
            appends += await self._appends_of(name, by_partition)
        return appends

    async def _appends_of(self, name: str, columns: dict[str, list[Columns]]) -> Iterator[Append]:
        queue = await self._catalogue.ensure_queue(name)
        partitions = await self._catalogue.ensure_partitions(queue, columns)
        return (
            Append(
                queue=queue.config.number,
                partition=partitions[partition].number,
                columns=concat(parts),
            )
            for partition, parts in columns.items()
        )

    def sealed(self, group: Group) -> Group:
        """A group as its queue wants it: encrypted, also if it was staged before the queue was."""
        queue = self._catalogue.queues.get(group.queue)
        encrypted = queue is not None and queue.config.options.encryption_enabled
        return group.sealed(self._keys) if encrypted else group

    def _check_room(self, pieces: Sequence[Piece]) -> None:
        """Refuse the whole before anything is made for it."""
        for name, count in _counts(pieces).items():
            if queue := self._catalogue.queues.get(name):
                queue.check_room(count)

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
