"""The sink: rows are staged unseen, and published when they are committed as a version of an app.

Each version is published once. A version that was published before is a repetition, because the
response was lost or another process committed it: the caller gets the same answer, and what was
staged for it is dropped.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeVar

from skep.core.cluster.maintenance_mode import MaintenanceMode
from skep.core.log.entry_table import read_entries
from skep.core.sink import manifest
from skep.core.sink.manifest import MAX_CHUNKS, ProgressKey, check_stage, check_version
from skep.core.sink.stager import Stager
from skep.core.sink.staging_area import StagingArea
from skep.core.sink.version_commit import VersionCommitter
from skep.core.state.registry import Registry
from skep.errors import Invalid, SkepError
from skep.model.name import MAX_NUMBER, SECOND, Instant, check_count, check_label
from skep.model.sink import Published, Stage, StagedRows
from skep.store.protocol import Store

KEEP_STAGES = 24 * 3600 * SECOND
"""How long a stage is kept after it was last written."""
KEEP_BATCHES = 7 * KEEP_STAGES
"""How long a job without versions may be repeated."""
STALLED = 10 * SECOND
"""How long a publication makes no progress before another server continues it."""

T = TypeVar("T")
_log = logging.getLogger("skep.broker")


class Sink:
    def __init__(
        self,
        store: Store,
        registry: Registry,
        mode: MaintenanceMode,
        area: StagingArea,
        stager: Stager,
        committer: VersionCommitter,
    ) -> None:
        self._store = store
        self._registry = registry
        self._mode = mode
        self._area = area
        self._stager = stager
        self._committer = committer
        self._running: set[asyncio.Task[Any]] = set()

    async def stop(self) -> None:
        """Wait for running publications, which stop after their current step."""
        if self._running:
            await asyncio.wait(self._running)

    async def stage(
        self,
        app: str,
        version: int | None,
        stage: str,
        chunk: int,
        rows: StagedRows,
        *,
        queue: str | None = None,
        producer: str | None = None,
        owner: str | None = None,
    ) -> int:
        """Stage a chunk, in place of an earlier one of the same number; return its row count.

        Rows that name no queue are for ``queue``. An app belongs to the ``owner`` that first
        stages or commits under its name; raises ``Forbidden`` for any other.
        """
        self._registry.check_open()
        check_count("chunk", chunk, most=MAX_CHUNKS - 1)
        sink_version = check_version(app, version)
        key = sink_version.key(check_stage("stage", stage), chunk)
        producer = check_label("producer", producer)
        check_label("owner", owner)
        await self._stager.stage(
            sink_version, key, rows, queue=queue, producer=producer, owner=owner
        )
        return len(rows)

    async def commit(
        self,
        app: str,
        version: int | None,
        stages: Sequence[Stage],
        *,
        owner: str | None = None,
        checkpoint: str | None = None,
    ) -> Published:
        """Publish stages in the order given as this version of the app, once.

        All rows become visible or none, in one change unless there are too many. An app belongs
        to the ``owner`` that first staged or committed under its name. The last version may be
        committed again with the same rows, in any stages; raises ``Conflict`` if the rows differ,
        for an older version, and for one that is too far ahead.
        ``checkpoint`` names what runs epochs again: if it is the same, only the number of rows
        is compared.
        """
        self._registry.check_open()
        sink_version = check_version(app, version)
        _check_stages(stages)
        await self._mode.check_normal()
        check_label("owner", owner)
        check_label("checkpoint", checkpoint)
        return await self._whole(self._committer.commit(sink_version, owner, stages, checkpoint))

    async def abort(
        self,
        app: str,
        version: int | None,
        stages: Sequence[Stage],
        *,
        owner: str | None = None,
    ) -> None:
        """Drop stages, unless they are committed."""
        self._registry.check_open()
        sink_version = check_version(app, version)
        _check_stages(stages)
        await self._whole(self._committer.abort(sink_version, owner, stages))

    async def last_version(self, app: str) -> int | None:
        """The last committed version of an app."""
        self._registry.check_open()
        progress_key = ProgressKey(manifest.APPS, check_version(app, None).app)
        progress, _ = await manifest.read_progress(self._store, progress_key)
        return progress.version if progress else None

    async def owner(self, app: str) -> str | None:
        """The principal that an app belongs to."""
        self._registry.check_open()
        return await manifest.read_owner(self._store, check_version(app, None).app)

    async def reset(self, app: str) -> int | None:
        """Delete the committed versions and the owner of an app; return the last version.

        Later commits are published, also under version numbers that were used before.
        """
        self._registry.check_open()
        return await self._whole(self._committer.reset(check_version(app, None).app))

    async def queues(self, app: str, version: int | None, stages: Sequence[Stage]) -> set[str]:
        """The queues that the rows of stages go to."""
        self._registry.check_open()
        sink_version = check_version(app, version)
        _check_stages(stages)
        return {
            queue
            for staged in await self._area.chunks(sink_version, stages)
            for part in staged.ref.stored
            for queue in part.queues
        }

    async def sweep(self) -> None:
        """Continue publications that stopped halfway, and delete what is no longer needed."""
        now = self._store.clock.now()
        for entry in await read_entries(self._store, manifest.MANIFESTS):
            await self._continue(manifest.progress_key_of(entry.key), now)
        staging = await self._sweep_stages(now)
        for entry in await read_entries(self._store, manifest.APPS):
            unused = manifest.is_claim(entry) and entry.key not in staging
            if unused and entry.updated_at <= now - KEEP_STAGES:
                await self._area.write([manifest.forget(entry)])
        for entry in await read_entries(self._store, manifest.BATCHES):
            if entry.updated_at <= now - KEEP_BATCHES and manifest.is_published(entry):
                await self._area.write([manifest.forget(entry)])

    async def _sweep_stages(self, now: Instant) -> set[str]:
        """Drop old stages; return the apps that still have some."""
        staging: set[str] = set()
        staged = await manifest.read_staged(self._store, "")
        for _, stage in groupby(staged, key=attrgetter("stage")):
            chunks = list(stage)
            if max(each.entry.updated_at for each in chunks) <= now - KEEP_STAGES:
                await self._area.drop(chunks)
            else:
                staging.add(chunks[0].app)
        return staging

    async def _continue(self, progress_key: ProgressKey, now: Instant) -> None:
        entries = await self._store.find_entries(progress_key.space, [progress_key.app])
        is_fresh = bool(entries) and entries[0].updated_at > now - STALLED
        if self._mode.buffers or (self._store.shared and is_fresh):
            return
        try:
            await self._whole(self._committer.finish(progress_key))
        except SkepError as error:
            _log.warning(
                "could not publish all of a committed version, retrying: app=%r error=%s",
                progress_key.app,
                error,
            )

    async def _whole(self, work: Coroutine[Any, Any, T]) -> T:
        """Finish what was begun, even if the caller is cancelled, until the broker closes."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)


def _check_stages(stages: Sequence[Stage]) -> None:
    seen: set[str] = set()
    for index, stage in enumerate(stages):
        where = f"stages[{index}]"
        check_stage(f"{where}.stage", stage.stage)
        check_count(f"{where}.chunks", stage.chunks, most=MAX_CHUNKS)
        check_count(f"{where}.rows", stage.rows, most=MAX_NUMBER)
        if stage.stage in seen:
            raise Invalid(f"{where}.stage", "is there twice")
        seen.add(stage.stage)
