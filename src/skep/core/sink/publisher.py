"""Publishing what a sink has staged: each version of an app once, whoever dies or comes twice.

A version that is not too large is one change: its messages, the app's progress, the chunks that
are no longer staged. A larger one is decided in a change without messages, and then published in
steps, each of which moves the app's progress on from where it has read it. So it does not matter
who takes a step, nor how many try: whoever comes next goes on.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from skep.core.aio import Backoff, yielding
from skep.core.cluster.maintenance_mode import NORMAL_PUSH
from skep.core.cluster.peer_sync import PeerSync
from skep.core.limits import Limits
from skep.core.log.committer import Committer
from skep.core.log.encryption import KeyRing
from skep.core.produce.capacity import FillLevel
from skep.core.sink import manifest
from skep.core.sink.chunk import PartitionRows, decode
from skep.core.sink.manifest import ChunkRef, CommitManifest, Progress, ProgressKey, StagedChunk
from skep.core.state.catalogue import Catalogue
from skep.core.state.queue_state import QueueState
from skep.core.state.quota import Quotas, limit_of, without_limits
from skep.core.state.registry import Registry
from skep.errors import Corrupted
from skep.model.change import Append, Applied, Capacity, Change, EntryUpdate, QueueVersion
from skep.model.queue import Queue
from skep.model.segment import Columns, concat
from skep.store.protocol import Store

APPEND_WEIGHT = 1000
"""What a partition counts in a commit: the number of partitions of a commit is limited too."""

_Columns = dict[str, dict[str, list[Columns]]]
"""By queue and partition, in the order of the chunks."""


class _Publication(NamedTuple):
    """Messages to be appended, and the queues and configurations that this was decided on."""

    appends: tuple[Append, ...]
    queues: tuple[QueueState, ...]
    versions: tuple[QueueVersion, ...]


class Publisher:
    def __init__(
        self,
        store: Store,
        catalogue: Catalogue,
        registry: Registry,
        quotas: Quotas,
        peer_sync: PeerSync,
        committer: Committer,
        level: FillLevel,
        keys: KeyRing,
        limits: Limits,
    ) -> None:
        self._peer_sync = peer_sync
        self._level = level
        self._store = store
        self._catalogue = catalogue
        self._registry = registry
        self._quotas = quotas
        self._committer = committer
        self._keys = keys
        self._limits = limits

    async def publish(
        self,
        progress_key: ProgressKey,
        progress: Progress,
        known: int,
        staged: Sequence[StagedChunk],
    ) -> bool:
        """Publish chunks, so that the app has this progress; its entry has the version ``known``.

        False, and nothing, if the chunks or the progress are no longer as they were read.
        """
        refs = [part for each in staged for part in each.ref.stored]
        counts = await _counts(refs)
        await self._check_room(counts)
        taken = [each.taken() for each in staged]
        if self._is_small(refs):
            self._committer.check(sum(ref.size for ref in refs))
            done = manifest.put_progress(progress_key, progress, known)
            return await self._publish_at_once(done, refs, taken)
        self._quotas.check_later(await self._partitions(refs, counts))
        assert progress.version is not None
        entries = (
            manifest.put_progress(progress_key, replace(progress, done=0), known),
            manifest.put_manifest(progress_key, CommitManifest(progress.version, refs)),
            *taken,
        )
        outcome = await self._committer.submit(Change(entries=entries))
        return isinstance(outcome, Applied)

    async def finish(self, progress_key: ProgressKey) -> tuple[Progress | None, int]:
        """Publish what is left of the version that was decided last.

        Returns the progress of the app, and the version of the entry that says so. What was
        decided is not for the quota of who comes next to stop.
        """
        with without_limits():
            return await self._finish(progress_key)

    async def _finish(self, progress_key: ProgressKey) -> tuple[Progress | None, int]:
        backoff = Backoff(f"what {progress_key.app!r} publishes")
        while True:
            self._registry.check_open()
            progress, known = await manifest.read_progress(self._store, progress_key)
            if progress is None or progress.done is None:
                return progress, known
            if await self._step(progress_key, progress, progress.done, known):
                backoff.reset()
            else:
                await backoff.pause()

    async def _step(
        self, progress_key: ProgressKey, progress: Progress, done: int, known: int
    ) -> bool:
        committed = await manifest.read_manifest(self._store, progress_key)
        if committed is None:
            return False
        refs = list(self._next(committed.refs[done:]))
        publication = await self._publication(refs)
        if publication is None:
            await self._check_moved(progress_key, known)
            return False
        done += len(refs)
        is_last = done == len(committed.refs)
        moved = replace(progress, version=committed.version, done=None if is_last else done)
        entries = [manifest.put_progress(progress_key, moved, known), *manifest.drop_data(refs)]
        if is_last:
            entries.append(manifest.put_manifest(progress_key, None))
        return await self._commit(publication, entries)

    async def _check_moved(self, progress_key: ProgressKey, known: int) -> None:
        """Raise, if nobody else can have published what is not there."""
        if (await manifest.read_progress(self._store, progress_key))[1] == known:
            raise Corrupted(
                f"a chunk that {progress_key.app!r} has staged is missing; restore a backup"
            )

    async def _publish_at_once(
        self, progress: EntryUpdate, refs: list[ChunkRef], taken: list[EntryUpdate]
    ) -> bool:
        publication = await self._publication(refs)
        if publication is None:
            return False
        capacity: list[Capacity] = []
        counts = await _counts(refs)
        for queue in publication.queues:
            capacity += await self._level.capacity(queue, counts[queue.config.name])
        entries = [progress, *taken, *manifest.drop_data(refs)]
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
        weight = change.weight + APPEND_WEIGHT * len(change.appends)
        return isinstance(await self._committer.submit(change, weight=weight), Applied)

    async def _publication(self, refs: Sequence[ChunkRef]) -> _Publication | None:
        """The messages of chunks, by partition; None if a chunk or a queue is gone."""
        data = await manifest.read_data(self._store, refs)
        if data is None:
            return None
        queues = {name: await self._catalogue.ensure_queue(name) for name in await _counts(refs)}
        configs = {name: queue.config for name, queue in queues.items()}
        versions = tuple(queue.versions[0] for queue in queues.values())
        columns = await self._columns(data, configs)
        for name, queue in queues.items():
            if not await self._catalogue.ensure_partitions(queue, columns[name]):
                await self._peer_sync.look_at(queue.config.number)
                return None
        appends: list[Append] = []
        async for name, queue in yielding(queues.items()):
            if not columns[name].keys() <= queue.partitions.keys():
                return None  # deleted while partitions of another were created
            appends += _appends(queue, columns[name])
        return _Publication(tuple(appends), tuple(queues.values()), versions)

    async def _columns(self, data: Iterable[bytes], configs: Mapping[str, Queue]) -> _Columns:
        columns: _Columns = {name: {} for name in configs}
        for value in data:
            chunk = decode(value)
            async for group in yielding(chunk.groups):
                sealed = self.sealed(group, configs[group.queue])
                parts = columns[group.queue].setdefault(group.partition, [])
                parts.append(sealed.columns(chunk.producer))
            # Other requests run: a part takes some milliseconds, and a step has few.
            await asyncio.sleep(0)
        return columns

    def sealed(self, group: PartitionRows, config: Queue | None) -> PartitionRows:
        """A group as its queue wants it: encrypted, also if it was staged before the queue was."""
        encrypted = config is not None and config.options.encryption_enabled
        return group.sealed(self._keys) if encrypted else group

    async def _partitions(
        self, refs: Sequence[ChunkRef], queues: Iterable[str]
    ) -> dict[str, set[str]]:
        """The queues, and the partitions of each if the caller may not have any number of them."""
        found: dict[str, set[str]] = {name: set() for name in queues}
        if limit_of("partitions") is None:
            return found
        async for ref in yielding(refs):
            for value in await manifest.read_data(self._store, [ref]) or ():
                for group in decode(value).groups:
                    found[group.queue].add(group.partition)
        return found

    async def _check_room(self, counts: Mapping[str, int]) -> None:
        """Refuse the whole before anything is created for it."""
        async for name, count in yielding(counts.items()):
            if queue := self._registry.queues.get(name):
                await self._level.capacity(queue, count)

    def _is_small(self, refs: Sequence[ChunkRef]) -> bool:
        limits = self._limits
        return (
            sum(ref.size for ref in refs) <= limits.publish_bytes
            and sum(ref.rows for ref in refs) <= limits.publish_messages
            and sum(ref.partitions for ref in refs) <= limits.publish_partitions
            and sum(ref.ids for ref in refs) <= limits.publish_ids
        )

    def _next(self, refs: Sequence[ChunkRef]) -> Iterator[ChunkRef]:
        """As many of the first as make a step, but one at least."""
        limits = self._limits
        size = rows = partitions = ids = 0
        for index, ref in enumerate(refs):
            size += ref.size
            rows += ref.rows
            partitions += ref.partitions
            ids += ref.ids
            too_much = (
                size > limits.publish_bytes // 4
                or rows > limits.publish_messages // 4
                or partitions > limits.step_partitions
                or ids > limits.step_ids
            )
            if index and too_much:
                return
            yield ref


def _appends(queue: QueueState, columns: Mapping[str, Sequence[Columns]]) -> Iterator[Append]:
    for partition, parts in columns.items():
        number = queue.partitions[partition].number
        yield Append(queue=queue.config.number, partition=number, columns=concat(parts))


async def _counts(refs: Sequence[ChunkRef]) -> dict[str, int]:
    counts: dict[str, int] = {}
    async for ref in yielding(refs):
        for queue, count in ref.queues.items():
            counts[queue] = counts.get(queue, 0) + count
    return counts
