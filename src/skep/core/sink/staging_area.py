"""The staged chunks of a sink: find them, drop them, and claim the application they belong to."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from skep.core.log.committer import Committer
from skep.core.sink import manifest
from skep.core.sink.application import check_owner
from skep.core.sink.manifest import Progress, ProgressKey, SinkVersion, StagedChunk
from skep.model.change import Applied, Change, EntryUpdate, QueueVersion
from skep.model.entry import Entry
from skep.model.sink import Stage
from skep.store.protocol import EntryStore

_STEP = 200
"""Chunks dropped in one change."""


class StagingArea:
    def __init__(self, store: EntryStore, committer: Committer) -> None:
        self._store = store
        self._committer = committer

    async def find(self, key: str) -> Entry | None:
        """The entry of a staged chunk, if it exists."""
        entries = await self._store.find_entries(manifest.STAGES, [key])
        return entries[0] if entries else None

    async def chunks(self, version: SinkVersion, stages: Sequence[Stage]) -> list[StagedChunk]:
        """The staged chunks of these stages, in the order of the stages."""
        by_stage: dict[str, list[StagedChunk]] = {
            version.prefix + each.stage: [] for each in stages
        }
        for staged in await manifest.read_staged(self._store, version.prefix):
            if staged.stage in by_stage:
                by_stage[staged.stage].append(staged)
        return [staged for chunks in by_stage.values() for staged in chunks]

    async def check_owner(self, app: str, caller: str | None) -> None:
        """Raise ``Forbidden`` unless the caller owns the application or it has no owner."""
        check_owner(app, await manifest.read_owner(self._store, app), caller)

    async def claim(self, app: str, owner: str | None) -> list[EntryUpdate]:
        """The update that makes a caller the owner of an application without one.

        Callers with and without versions write the same entry, so only one of two succeeds.
        """
        progress_key = ProgressKey(manifest.APPS, app)
        progress, entry_version = await manifest.read_progress(self._store, progress_key)
        if progress is not None and progress.owner is not None:
            check_owner(app, progress.owner, owner)
            return []
        await self.check_owner(app, owner)
        if owner is None:
            return []
        claimed = replace(progress, owner=owner) if progress else Progress(None, owner=owner)
        return [manifest.put_progress(progress_key, claimed, entry_version)]

    async def drop(self, staged: Sequence[StagedChunk]) -> None:
        """Delete chunks, except those that were staged again after they were read."""
        for start in range(0, len(staged), _STEP):
            step = staged[start : start + _STEP]
            if not await self.write(_dropped(step)):
                for chunk in step:
                    await self.write(_dropped([chunk]))

    async def write(
        self, updates: Iterable[EntryUpdate], queues: tuple[QueueVersion, ...] = ()
    ) -> bool:
        """Write all updates; False, and nothing, if an entry or queue changed since it was read."""
        outcome = await self._committer.submit(Change(entries=tuple(updates), queues=queues))
        return isinstance(outcome, Applied)


def _dropped(staged: Sequence[StagedChunk]) -> list[EntryUpdate]:
    taken = [chunk.taken() for chunk in staged]
    return taken + manifest.drop_data(chunk.ref for chunk in staged)
