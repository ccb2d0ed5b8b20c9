"""Publishes staged chunks: each version of an application once, on any server, after any crash.

A small version is one change: its messages, the progress of the application, and the removal of
the staged chunks. A larger version first commits a manifest without messages, and is then published
in steps. Each step moves the progress on from the version of the entry it has read, so any server
can take the next step, and a step that two servers try is applied once.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from skep.core.aio import Backoff
from skep.core.cluster.maintenance_mode import NORMAL_PUSH
from skep.core.log.committer import Committer
from skep.core.sink import manifest
from skep.core.sink.admission import Admission
from skep.core.sink.manifest import ChunkRef, CommitManifest, Progress, ProgressKey, StagedChunk
from skep.core.sink.publication import Publication, PublicationBuilder
from skep.core.state.quota import without_limits
from skep.core.state.registry import Registry
from skep.errors import Corrupted
from skep.model.change import Applied, Capacity, Change, EntryUpdate
from skep.store.protocol import EntryStore

APPEND_WEIGHT = 1000
"""The weight of a partition in a commit: the number of partitions of a commit is limited too."""


class Publisher:
    def __init__(
        self,
        store: EntryStore,
        registry: Registry,
        committer: Committer,
        admission: Admission,
        builder: PublicationBuilder,
    ) -> None:
        self._store = store
        self._registry = registry
        self._committer = committer
        self._admission = admission
        self._builder = builder

    async def publish(
        self,
        progress_key: ProgressKey,
        progress: Progress,
        expected: int,
        staged: Sequence[StagedChunk],
    ) -> bool:
        """Publish chunks and store this progress, or commit a manifest of them if they are many.

        False, and nothing is written, if a chunk changed since it was read, or the progress does
        not have the version ``expected``.
        """
        refs = [part for chunk in staged for part in chunk.ref.stored]
        await self._admission.check_room(refs)
        taken = [chunk.taken() for chunk in staged]
        if self._builder.fits_one_change(refs):
            self._committer.check(sum(ref.size for ref in refs))
            done = manifest.put_progress(progress_key, progress, expected)
            return await self._publish_at_once(done, refs, taken)
        await self._admission.check_quota(refs)
        assert progress.version is not None
        entries = (
            manifest.put_progress(progress_key, replace(progress, done=0), expected),
            manifest.put_manifest(progress_key, CommitManifest(progress.version, refs)),
            *taken,
        )
        outcome = await self._committer.submit(Change(entries=entries))
        return isinstance(outcome, Applied)

    async def finish(self, progress_key: ProgressKey) -> tuple[Progress | None, int]:
        """Publish the rest of the last committed version.

        Returns the progress of the application and the version of its entry. The quota of the
        caller does not apply: the version was committed before.
        """
        with without_limits():
            return await self._finish(progress_key)

    async def _finish(self, progress_key: ProgressKey) -> tuple[Progress | None, int]:
        backoff = Backoff(f"what {progress_key.app!r} publishes")
        while True:
            self._registry.check_open()
            progress, entry_version = await manifest.read_progress(self._store, progress_key)
            if progress is None or progress.done is None:
                return progress, entry_version
            if await self._step(progress_key, progress, progress.done, entry_version):
                backoff.reset()
            else:
                await backoff.pause()

    async def _step(
        self, progress_key: ProgressKey, progress: Progress, done: int, entry_version: int
    ) -> bool:
        committed = await manifest.read_manifest(self._store, progress_key)
        if committed is None:
            return False
        refs = list(self._builder.next_step(committed.refs[done:]))
        publication = await self._builder.build(refs)
        if publication is None:
            await self._check_moved(progress_key, entry_version)
            return False
        done += len(refs)
        is_last = done == len(committed.refs)
        moved = replace(progress, version=committed.version, done=None if is_last else done)
        entries = [
            manifest.put_progress(progress_key, moved, entry_version),
            *manifest.drop_data(refs),
        ]
        if is_last:
            entries.append(manifest.put_manifest(progress_key, None))
        return await self._commit(publication, entries)

    async def _check_moved(self, progress_key: ProgressKey, entry_version: int) -> None:
        """Raise ``Corrupted`` unless another server has published the missing chunk."""
        if (await manifest.read_progress(self._store, progress_key))[1] == entry_version:
            raise Corrupted(
                f"a chunk that {progress_key.app!r} has staged is missing; restore a backup"
            )

    async def _publish_at_once(
        self, progress: EntryUpdate, refs: list[ChunkRef], taken: list[EntryUpdate]
    ) -> bool:
        publication = await self._builder.build(refs)
        if publication is None:
            return False
        capacity = await self._admission.capacity(publication, refs)
        entries = [progress, *taken, *manifest.drop_data(refs)]
        return await self._commit(publication, entries, capacity)

    async def _commit(
        self,
        publication: Publication,
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
