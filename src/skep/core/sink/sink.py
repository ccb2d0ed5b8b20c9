"""Staging: what a sink writes is kept, unseen, until it is committed as a version of an app.

Each version is published once. One that was published before is a repetition, whose answer was
lost or which another process has done: it is answered, and what was staged for it is dropped.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, ParamSpec, TypeVar

from msgspec.structs import replace

from skep.core.aio import Backoff, KeyedLocks
from skep.core.cluster.maintenance_mode import MaintenanceMode
from skep.core.cluster.peer_sync import PeerSync
from skep.core.limits import Limits
from skep.core.log.committer import Committer
from skep.core.log.entry_table import read_entries
from skep.core.sink import manifest
from skep.core.sink.application import check_next, check_owner, check_repeated
from skep.core.sink.chunk import Content, Part, PartitionRows, content_of, encode, group
from skep.core.sink.manifest import (
    MAX_CHUNKS,
    Progress,
    ProgressKey,
    SinkVersion,
    StagedChunk,
    check_stage,
    check_version,
)
from skep.core.sink.publisher import Publisher
from skep.core.sink.staged_bytes import StagedBytes
from skep.core.state.queue_state import QueueState
from skep.core.state.registry import Registry
from skep.errors import (
    Conflict,
    Invalid,
    NotFound,
    OutcomeUnknown,
    SkepError,
    Unavailable,
)
from skep.model.change import Applied, Change, EntryUpdate, QueueVersion
from skep.model.name import MAX_NUMBER, SECOND, check_count, check_label
from skep.model.queue import Queue
from skep.model.sink import Published, Stage, StagedRows
from skep.store.protocol import Store

KEEP_STAGES = 24 * 3600 * SECOND
"""How long a stage is kept that nobody touches."""
KEEP_BATCHES = 7 * KEEP_STAGES
"""How long a job without versions may be repeated."""
STALLED = 10 * SECOND
"""How long nobody has taken a step before another server goes on."""
_STEP = 200
_FEW_ROWS = 1_000

P = ParamSpec("P")
T = TypeVar("T")
_log = logging.getLogger("skep.staging")


class Sink:
    def __init__(
        self,
        store: Store,
        registry: Registry,
        peer_sync: PeerSync,
        committer: Committer,
        mode: MaintenanceMode,
        publisher: Publisher,
        limits: Limits,
    ) -> None:
        self._store = store
        self._registry = registry
        self._peer_sync = peer_sync
        self._committer = committer
        self._limits = limits
        self._mode = mode
        self._publisher = publisher
        self._busy = KeyedLocks[ProgressKey]()
        self._staged_bytes = StagedBytes(store)
        self._running: set[asyncio.Task[Any]] = set()

    async def stop(self) -> None:
        """Take no further step; what is left is for whoever comes next."""
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
        """Keep a chunk; the same one again replaces it. Returns how many rows it has.

        Rows that name no queue are for ``queue``. An app belongs to the ``owner`` that first
        stages or commits under its name; raises ``Forbidden`` for everybody else.
        """
        self._registry.check_open()
        check_count("chunk", chunk, most=MAX_CHUNKS - 1)
        sink_version = check_version(app, version)
        key = sink_version.key(check_stage("stage", stage), chunk)
        producer = check_label("producer", producer)
        check_label("owner", owner)
        clear, content = await _run(len(rows), _grouped, rows, queue, self._limits)
        await self._staged_bytes.add(key, sum(len(each or b"") for each in rows.payloads))
        backoff = Backoff("the same chunk")
        while True:
            states = await self._states({each.queue for each in clear})
            configs = {name: state.config for name, state in states.items()}
            versions = tuple(state.versions[0] for state in states.values())
            parts = await _run(len(rows), self._encoded, clear, configs, producer)
            found = await self._store.find_entries(manifest.STAGES, [key])
            updates = manifest.put_chunk(key, found[0] if found else None, parts, content)
            updates += await self._claim(sink_version, owner)
            if await self._write(updates, versions):
                return len(rows)
            await backoff.pause()

    def _encoded(
        self, groups: Iterable[PartitionRows], configs: Mapping[str, Queue], producer: str | None
    ) -> list[Part]:
        sealed = (self._publisher.sealed(each, configs.get(each.queue)) for each in groups)
        return encode(sealed, producer, self._limits)

    async def _claim(self, sink_version: SinkVersion, owner: str | None) -> list[EntryUpdate]:
        """The write that makes a caller the owner of an app that has none.

        It is the same for writes with versions and without: of two callers one succeeds.
        """
        progress_key = ProgressKey(manifest.APPS, sink_version.app)
        progress, known = await manifest.read_progress(self._store, progress_key)
        if progress is not None and progress.owner is not None:
            check_owner(sink_version.app, progress.owner, owner)
            return []
        check_owner(
            sink_version.app, await manifest.read_owner(self._store, sink_version.app), owner
        )
        if owner is None:
            return []
        claimed = replace(progress, owner=owner) if progress else Progress(None, owner=owner)
        return [manifest.put_progress(progress_key, claimed, known)]

    async def _states(self, names: Iterable[str]) -> dict[str, QueueState]:
        """The queues of these names that exist."""
        known = self._registry.queues
        if any(name not in known for name in names):
            await self._peer_sync.complete()
        return {name: known[name] for name in names if name in known}

    async def commit(
        self,
        app: str,
        version: int | None,
        stages: Sequence[Stage],
        *,
        owner: str | None = None,
        checkpoint: str | None = None,
    ) -> Published:
        """Publish stages in the order given, as this version of the app, unless it has been.

        All of it becomes visible, in one change if it is not too large, or nothing does. An app
        belongs to the ``owner`` that first staged or committed under its name. The last version
        may come again, with the same rows in whatever stages; raises ``Conflict`` if the rows are
        others, for an older version, and for one that is too far ahead.
        ``checkpoint`` names what runs epochs again: if it is the same, as many rows will do.
        """
        self._registry.check_open()
        sink_version = check_version(app, version)
        _check_stages(stages)
        await self._mode.check_normal()
        check_label("owner", owner)
        check_label("checkpoint", checkpoint)
        return await self._whole(self._commit(sink_version, owner, stages, checkpoint))

    async def abort(
        self,
        app: str,
        version: int | None,
        stages: Sequence[Stage],
        *,
        owner: str | None = None,
    ) -> None:
        """Drop stages, unless they are published or about to be."""
        self._registry.check_open()
        sink_version = check_version(app, version)
        _check_stages(stages)
        await self._whole(self._abort(sink_version, owner, stages))

    async def last_version(self, app: str) -> int | None:
        """The last version of an app that was committed."""
        self._registry.check_open()
        progress_key = ProgressKey(manifest.APPS, check_version(app, None).app)
        progress, _ = await manifest.read_progress(self._store, progress_key)
        return progress.version if progress else None

    async def owner(self, app: str) -> str | None:
        """The principal that an app belongs to."""
        self._registry.check_open()
        return await manifest.read_owner(self._store, check_version(app, None).app)

    async def reset(self, app: str) -> int | None:
        """Forget what was committed under the name of an app, and its owner; returns the last.

        What it commits from then on is published, also under numbers that it has used before.
        """
        self._registry.check_open()
        return await self._whole(self._reset(check_version(app, None).app))

    async def queues(self, app: str, version: int | None, stages: Sequence[Stage]) -> set[str]:
        """The queues that are named in what lies in stages."""
        self._registry.check_open()
        sink_version = check_version(app, version)
        _check_stages(stages)
        return {
            queue
            for each in await self._of(sink_version, stages)
            for part in each.ref.stored
            for queue in part.queues
        }

    async def sweep(self) -> None:
        """Go on with what somebody has left half published, and drop what nobody wants."""
        now = self._store.clock.now()
        for entry in await read_entries(self._store, manifest.MANIFESTS):
            await self._go_on(manifest.progress_key_of(entry.key), now)
        staging: set[str] = set()
        staged = await manifest.read_staged(self._store, "")
        for _, some in groupby(staged, key=attrgetter("stage")):
            chunks = list(some)
            if max(each.entry.updated_at for each in chunks) <= now - KEEP_STAGES:
                await self._drop(chunks)
            else:
                staging.add(chunks[0].app)
        for entry in await read_entries(self._store, manifest.APPS):
            unused = manifest.is_claim(entry) and entry.key not in staging
            if unused and entry.updated_at <= now - KEEP_STAGES:
                await self._write([manifest.forget(entry)])
        for entry in await read_entries(self._store, manifest.BATCHES):
            if entry.updated_at <= now - KEEP_BATCHES and manifest.is_published(entry):
                await self._write([manifest.forget(entry)])

    async def _commit(
        self,
        sink_version: SinkVersion,
        owner: str | None,
        stages: Sequence[Stage],
        checkpoint: str | None,
    ) -> Published:
        backoff = Backoff(f"what {sink_version.app!r} publishes")
        async with self._busy.of(sink_version.progress_key):
            while True:
                await self._mode.check_normal()
                progress, known = await self._publisher.finish(sink_version.progress_key)
                check_owner(
                    sink_version.app,
                    await manifest.read_owner(self._store, sink_version.app),
                    owner,
                )
                staged = await self._of(sink_version, stages)
                problem = _problem(sink_version, stages, staged)
                refs = [each.ref for each in staged]
                fingerprint = manifest.fingerprint_of(stages, refs, checkpoint)
                last = progress.version if progress else None
                if progress is not None and last is not None and sink_version.number <= last:
                    check_repeated(sink_version, last, progress.fingerprint, fingerprint, problem)
                    await self._drop(staged)
                    await self._committer.confirm()
                    return Published(duplicate=True, rows=0)
                if problem:
                    if (await manifest.read_progress(self._store, sink_version.progress_key))[
                        1
                    ] == known:
                        raise Conflict(problem)
                    # Otherwise another server has just published it.
                    await backoff.pause()
                    continue
                check_next(sink_version, last, rows=sum(stage.rows for stage in stages))
                made = Progress(sink_version.number, owner=owner, fingerprint=fingerprint)
                if await self._own(sink_version, owner) and await self._publisher.publish(
                    sink_version.progress_key, made, known, staged
                ):
                    await self._publish_rest(sink_version)
                    return Published(duplicate=False, rows=sum(stage.rows for stage in stages))
                await backoff.pause()

    async def _own(self, sink_version: SinkVersion, owner: str | None) -> bool:
        """Whether a caller without versions is the owner; with a version its progress says so."""
        claim = [] if sink_version.version is not None else await self._claim(sink_version, owner)
        return not claim or await self._write(claim)

    async def _reset(self, app: str) -> int | None:
        backoff = Backoff(f"what {app!r} publishes")
        versions, batches = ProgressKey(manifest.APPS, app), ProgressKey(manifest.BATCHES, app)
        async with self._busy.of(versions), self._busy.of(batches):
            while True:
                found = {each: await self._publisher.finish(each) for each in (versions, batches)}
                there = {each: known for each, (progress, known) in found.items() if progress}
                if not there:
                    raise NotFound(f"app {app!r} has not committed any version")
                forgotten = [manifest.put_progress(each, None, there[each]) for each in there]
                if await self._write(forgotten):
                    progress, _ = found[versions]
                    return progress.version if progress else None
                await backoff.pause()

    async def _publish_rest(self, sink_version: SinkVersion) -> None:
        try:
            await self._publisher.finish(sink_version.progress_key)
        except (Conflict, NotFound, Unavailable) as error:
            raise OutcomeUnknown(
                f"version {sink_version.number} of {sink_version.app!r} is committed, "
                f"but not all of it is published yet: {error}"
            ) from error

    async def _abort(
        self, sink_version: SinkVersion, owner: str | None, stages: Sequence[Stage]
    ) -> None:
        async with self._busy.of(sink_version.progress_key):
            check_owner(
                sink_version.app, await manifest.read_owner(self._store, sink_version.app), owner
            )
            await self._drop(await self._of(sink_version, stages))

    async def _of(self, sink_version: SinkVersion, stages: Sequence[Stage]) -> list[StagedChunk]:
        """What is staged of these stages, in their order."""
        by_stage: dict[str, list[StagedChunk]] = {
            sink_version.prefix + each.stage: [] for each in stages
        }
        for staged in await manifest.read_staged(self._store, sink_version.prefix):
            if staged.stage in by_stage:
                by_stage[staged.stage].append(staged)
        return [staged for some in by_stage.values() for staged in some]

    async def _drop(self, staged: Sequence[StagedChunk]) -> None:
        """Drop chunks, but not one that was touched since it was read."""
        for some in (staged[at : at + _STEP] for at in range(0, len(staged), _STEP)):
            updates = [each.taken() for each in some]
            updates += manifest.drop_data(each.ref for each in some)
            if not await self._write(updates):
                for each in some:
                    await self._write([each.taken(), *manifest.drop_data([each.ref])])

    async def _go_on(self, progress_key: ProgressKey, now: int) -> None:
        found = await self._store.find_entries(progress_key.space, [progress_key.app])
        is_fresh = bool(found) and found[0].updated_at > now - STALLED
        if self._mode.buffers or (self._store.shared and is_fresh):
            return
        try:
            await self._whole(self._finish(progress_key))
        except SkepError as error:
            _log.warning("what %r has committed is not all published: %s", progress_key.app, error)

    async def _finish(self, progress_key: ProgressKey) -> None:
        async with self._busy.of(progress_key):
            await self._publisher.finish(progress_key)

    async def _write(
        self, updates: Iterable[EntryUpdate], queues: tuple[QueueVersion, ...] = ()
    ) -> bool:
        """False, and nothing, if something is no longer as it was read."""
        outcome = await self._committer.submit(Change(entries=tuple(updates), queues=queues))
        return isinstance(outcome, Applied)

    async def _whole(self, work: Coroutine[Any, Any, T]) -> T:
        """Go on with what was begun, even if whoever asked has gone, until the broker closes."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)


def _grouped(
    rows: StagedRows, queue: str | None, limits: Limits
) -> tuple[list[PartitionRows], Content]:
    groups = group(rows, queue, limits)
    return groups, content_of(groups)


async def _run(rows: int, work: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    """Run work on rows, in another thread if they are many: each may be for another partition."""
    if rows <= _FEW_ROWS:
        return work(*args, **more)
    return await asyncio.to_thread(work, *args, **more)


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


def _problem(
    sink_version: SinkVersion, stages: Sequence[Stage], staged: Iterable[StagedChunk]
) -> str | None:
    """Why what is staged is not what was committed."""
    found = {key: list(some) for key, some in groupby(staged, key=attrgetter("stage"))}
    for stage in stages:
        there = found.get(sink_version.prefix + stage.stage, [])
        if [each.chunk for each in there] != list(range(stage.chunks)):
            return f"stage {stage.stage!r}: {len(there)} of {stage.chunks} chunks are there"
        rows = sum(each.ref.rows for each in there)
        if rows != stage.rows:
            return f"stage {stage.stage!r}: {rows} rows were staged, not {stage.rows}"
    return None
