"""Commits, aborts and resets versions, one at a time for each application."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter

from skep.core.aio import Backoff, KeyedLocks
from skep.core.cluster.maintenance_mode import MaintenanceMode
from skep.core.log.committer import Committer
from skep.core.sink import manifest
from skep.core.sink.application import check_next, check_repeated
from skep.core.sink.manifest import Progress, ProgressKey, SinkVersion, StagedChunk
from skep.core.sink.publisher import Publisher
from skep.core.sink.staging_area import StagingArea
from skep.errors import Conflict, NotFound, OutcomeUnknown, Unavailable
from skep.model.sink import Published, Stage
from skep.store.protocol import EntryStore


class VersionCommitter:
    def __init__(
        self,
        store: EntryStore,
        committer: Committer,
        mode: MaintenanceMode,
        area: StagingArea,
        publisher: Publisher,
    ) -> None:
        self._store = store
        self._committer = committer
        self._mode = mode
        self._area = area
        self._publisher = publisher
        self._busy = KeyedLocks[ProgressKey]()

    async def commit(
        self,
        version: SinkVersion,
        owner: str | None,
        stages: Sequence[Stage],
        checkpoint: str | None,
    ) -> Published:
        """Publish a version, or recognize it as a repetition of the last one."""
        backoff = Backoff(f"what {version.app!r} publishes")
        async with self._busy.of(version.progress_key):
            while True:
                published = await self._attempt(version, owner, stages, checkpoint)
                if published is not None:
                    return published
                await backoff.pause()

    async def _attempt(
        self,
        version: SinkVersion,
        owner: str | None,
        stages: Sequence[Stage],
        checkpoint: str | None,
    ) -> Published | None:
        """The result of a commit; None if another server was faster, so that it is retried."""
        await self._mode.check_normal()
        progress, entry_version = await self._publisher.finish(version.progress_key)
        await self._area.check_owner(version.app, owner)
        staged = await self._area.chunks(version, stages)
        problem = _problem(version, stages, staged)
        fingerprint = manifest.fingerprint_of(stages, [each.ref for each in staged], checkpoint)
        last = progress.version if progress else None
        if progress is not None and last is not None and version.number <= last:
            check_repeated(version, last, progress.fingerprint, fingerprint, problem)
            await self._area.drop(staged)
            await self._committer.confirm()
            return Published(duplicate=True, rows=0)
        if problem:
            _, current = await manifest.read_progress(self._store, version.progress_key)
            if current == entry_version:
                raise Conflict(problem)
            return None  # another server has just published it
        rows = sum(stage.rows for stage in stages)
        check_next(version, last, rows=rows)
        committed = Progress(version.number, owner=owner, fingerprint=fingerprint)
        if not await self._own(version, owner) or not await self._publisher.publish(
            version.progress_key, committed, entry_version, staged
        ):
            return None
        await self._publish_rest(version)
        return Published(duplicate=False, rows=rows)

    async def _own(self, version: SinkVersion, owner: str | None) -> bool:
        """Claim an application without versions; with a version its progress names the owner."""
        claim = [] if version.version is not None else await self._area.claim(version.app, owner)
        return not claim or await self._area.write(claim)

    async def _publish_rest(self, version: SinkVersion) -> None:
        try:
            await self._publisher.finish(version.progress_key)
        except (Conflict, NotFound, Unavailable) as error:
            raise OutcomeUnknown(
                f"version {version.number} of {version.app!r} is committed, "
                f"but not all of it is published yet: {error}"
            ) from error

    async def abort(self, version: SinkVersion, owner: str | None, stages: Sequence[Stage]) -> None:
        """Drop the staged chunks of a version that is not committed."""
        async with self._busy.of(version.progress_key):
            await self._area.check_owner(version.app, owner)
            await self._area.drop(await self._area.chunks(version, stages))

    async def reset(self, app: str) -> int | None:
        """Delete the progress of an application; return its last version."""
        backoff = Backoff(f"what {app!r} publishes")
        versions, batches = ProgressKey(manifest.APPS, app), ProgressKey(manifest.BATCHES, app)
        async with self._busy.of(versions), self._busy.of(batches):
            while True:
                stored = {key: await self._publisher.finish(key) for key in (versions, batches)}
                deleted = [
                    manifest.put_progress(key, None, entry_version)
                    for key, (progress, entry_version) in stored.items()
                    if progress
                ]
                if not deleted:
                    raise NotFound(f"app {app!r} has not committed any version")
                if await self._area.write(deleted):
                    progress, _ = stored[versions]
                    return progress.version if progress else None
                await backoff.pause()

    async def finish(self, progress_key: ProgressKey) -> None:
        """Publish the rest of the last committed version."""
        async with self._busy.of(progress_key):
            await self._publisher.finish(progress_key)


def _problem(
    version: SinkVersion, stages: Sequence[Stage], staged: Iterable[StagedChunk]
) -> str | None:
    """How the staged chunks differ from the stages to be committed."""
    by_stage = {key: list(chunks) for key, chunks in groupby(staged, key=attrgetter("stage"))}
    for stage in stages:
        chunks = by_stage.get(version.prefix + stage.stage, [])
        if [each.chunk for each in chunks] != list(range(stage.chunks)):
            return f"stage {stage.stage!r}: {len(chunks)} of {stage.chunks} chunks are there"
        rows = sum(each.ref.rows for each in chunks)
        if rows != stage.rows:
            return f"stage {stage.stage!r}: {rows} rows were staged, not {stage.rows}"
    return None
