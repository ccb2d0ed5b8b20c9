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
from skep.core.sink import manifest as ledger
from skep.core.sink.application import check_next, check_owner, check_repeated
from skep.core.sink.chunk import Content, Part, PartitionRows, content_of, encode, group
from skep.core.sink.manifest import (
    MAX_CHUNKS,
    Account,
    Epoch,
    Progress,
    StagedChunk,
    check_epoch,
    check_stage,
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
        publishing: Publisher,
        limits: Limits,
    ) -> None:
        self._store = store
        self._registry = registry
        self._peer_sync = peer_sync
        self._committer = committer
        self._limits = limits
        self._mode = mode
        self._publishing = publishing
        self._busy = KeyedLocks[Account]()
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
        epoch = check_epoch(app, version)
        key = epoch.key(check_stage("stage", stage), chunk)
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
            found = await self._store.find_entries(ledger.STAGES, [key])
            updates = ledger.put_chunk(key, found[0] if found else None, parts, content)
            updates += await self._claim(epoch, owner)
            if await self._write(updates, versions):
                return len(rows)
            await backoff.pause()

    def _encoded(
        self, groups: Iterable[PartitionRows], configs: Mapping[str, Queue], producer: str | None
    ) -> list[Part]:
        sealed = (self._publishing.sealed(each, configs.get(each.queue)) for each in groups)
        return encode(sealed, producer, self._limits)

    async def _claim(self, epoch: Epoch, owner: str | None) -> list[EntryUpdate]:
        """The write that makes a caller the owner of an app that has none.

        It is the same for writes with versions and without: of two callers one succeeds.
        """
        account = Account(ledger.APPS, epoch.app)
        progress, known = await ledger.read_progress(self._store, account)
        if progress is not None and progress.owner is not None:
            check_owner(epoch.app, progress.owner, owner)
            return []
        check_owner(epoch.app, await ledger.read_owner(self._store, epoch.app), owner)
        if owner is None:
            return []
        claimed = replace(progress, owner=owner) if progress else Progress(None, owner=owner)
        return [ledger.put_progress(account, claimed, known)]

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
        epoch = check_epoch(app, version)
        _check_stages(stages)
        await self._mode.check_normal()
        check_label("owner", owner)
        check_label("checkpoint", checkpoint)
        return await self._whole(self._commit(epoch, owner, stages, checkpoint))

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
        epoch = check_epoch(app, version)
        _check_stages(stages)
        await self._whole(self._abort(epoch, owner, stages))

    async def last_version(self, app: str) -> int | None:
        """The last version of an app that was committed."""
        self._registry.check_open()
        account = Account(ledger.APPS, check_epoch(app, None).app)
        progress, _ = await ledger.read_progress(self._store, account)
        return progress.version if progress else None

    async def owner(self, app: str) -> str | None:
        """The principal that an app belongs to."""
        self._registry.check_open()
        return await ledger.read_owner(self._store, check_epoch(app, None).app)

    async def reset(self, app: str) -> int | None:
        """Forget what was committed under the name of an app, and its owner; returns the last.

        What it commits from then on is published, also under numbers that it has used before.
        """
        self._registry.check_open()
        return await self._whole(self._reset(check_epoch(app, None).app))

    async def queues(self, app: str, version: int | None, stages: Sequence[Stage]) -> set[str]:
        """The queues that are named in what lies in stages."""
        self._registry.check_open()
        epoch = check_epoch(app, version)
        _check_stages(stages)
        return {
            queue
            for each in await self._of(epoch, stages)
            for part in each.piece.stored
            for queue in part.queues
        }

    async def sweep(self) -> None:
        """Go on with what somebody has left half published, and drop what nobody wants."""
        now = self._store.clock.now()
        for decision in await ledger.read_all(self._store, ledger.DECISIONS):
            await self._go_on(ledger.account_of(decision.key), now)
        staging: set[str] = set()
        staged = await ledger.read_staged(self._store, "")
        for _, some in groupby(staged, key=attrgetter("stage")):
            chunks = list(some)
            if max(each.entry.updated_at for each in chunks) <= now - KEEP_STAGES:
                await self._drop(chunks)
            else:
                staging.add(chunks[0].app)
        for entry in await ledger.read_all(self._store, ledger.APPS):
            unused = ledger.is_claim(entry) and entry.key not in staging
            if unused and entry.updated_at <= now - KEEP_STAGES:
                await self._write([ledger.forget(entry)])
        for entry in await ledger.read_all(self._store, ledger.BATCHES):
            if entry.updated_at <= now - KEEP_BATCHES and ledger.is_published(entry):
                await self._write([ledger.forget(entry)])

    async def _commit(
        self, epoch: Epoch, owner: str | None, stages: Sequence[Stage], checkpoint: str | None
    ) -> Published:
        backoff = Backoff(f"what {epoch.app!r} publishes")
        async with self._busy.of(epoch.account):
            while True:
                await self._mode.check_normal()
                progress, known = await self._publishing.finish(epoch.account)
                check_owner(epoch.app, await ledger.read_owner(self._store, epoch.app), owner)
                staged = await self._of(epoch, stages)
                problem = _problem(epoch, stages, staged)
                pieces = [each.piece for each in staged]
                fingerprint = ledger.fingerprint_of(stages, pieces, checkpoint)
                last = progress.version if progress else None
                if progress is not None and last is not None and epoch.number <= last:
                    check_repeated(epoch, last, progress.fingerprint, fingerprint, problem)
                    await self._drop(staged)
                    await self._committer.confirm()
                    return Published(duplicate=True, rows=0)
                if problem:
                    if (await ledger.read_progress(self._store, epoch.account))[1] == known:
                        raise Conflict(problem)
                    # Otherwise another server has just published it.
                    await backoff.pause()
                    continue
                check_next(epoch, last, rows=sum(stage.rows for stage in stages))
                made = Progress(epoch.number, owner=owner, fingerprint=fingerprint)
                if await self._own(epoch, owner) and await self._publishing.publish(
                    epoch.account, made, known, staged
                ):
                    await self._publish_rest(epoch)
                    return Published(duplicate=False, rows=sum(stage.rows for stage in stages))
                await backoff.pause()

    async def _own(self, epoch: Epoch, owner: str | None) -> bool:
        """Whether a caller without versions is the owner; with a version its progress says so."""
        claim = [] if epoch.version is not None else await self._claim(epoch, owner)
        return not claim or await self._write(claim)

    async def _reset(self, app: str) -> int | None:
        backoff = Backoff(f"what {app!r} publishes")
        versions, batches = Account(ledger.APPS, app), Account(ledger.BATCHES, app)
        async with self._busy.of(versions), self._busy.of(batches):
            while True:
                found = {each: await self._publishing.finish(each) for each in (versions, batches)}
                there = {each: known for each, (progress, known) in found.items() if progress}
                if not there:
                    raise NotFound(f"app {app!r} has not committed any version")
                forgotten = [ledger.put_progress(each, None, there[each]) for each in there]
                if await self._write(forgotten):
                    progress, _ = found[versions]
                    return progress.version if progress else None
                await backoff.pause()

    async def _publish_rest(self, epoch: Epoch) -> None:
        try:
            await self._publishing.finish(epoch.account)
        except (Conflict, NotFound, Unavailable) as error:
            raise OutcomeUnknown(
                f"version {epoch.number} of {epoch.app!r} is committed, "
                f"but not all of it is published yet: {error}"
            ) from error

    async def _abort(self, epoch: Epoch, owner: str | None, stages: Sequence[Stage]) -> None:
        async with self._busy.of(epoch.account):
            check_owner(epoch.app, await ledger.read_owner(self._store, epoch.app), owner)
            await self._drop(await self._of(epoch, stages))

    async def _of(self, epoch: Epoch, stages: Sequence[Stage]) -> list[StagedChunk]:
        """What is staged of these stages, in their order."""
        by_stage: dict[str, list[StagedChunk]] = {epoch.prefix + each.stage: [] for each in stages}
        for staged in await ledger.read_staged(self._store, epoch.prefix):
            if staged.stage in by_stage:
                by_stage[staged.stage].append(staged)
        return [staged for some in by_stage.values() for staged in some]

    async def _drop(self, staged: Sequence[StagedChunk]) -> None:
        """Drop chunks, but not one that was touched since it was read."""
        for some in (staged[at : at + _STEP] for at in range(0, len(staged), _STEP)):
            updates = [each.taken() for each in some]
            updates += ledger.drop_data(each.piece for each in some)
            if not await self._write(updates):
                for each in some:
                    await self._write([each.taken(), *ledger.drop_data([each.piece])])

    async def _go_on(self, account: Account, now: int) -> None:
        found = await self._store.find_entries(account.space, [account.app])
        is_fresh = bool(found) and found[0].updated_at > now - STALLED
        if self._mode.buffers or (self._store.shared and is_fresh):
            return
        try:
            await self._whole(self._finish(account))
        except SkepError as error:
            _log.warning("what %r has committed is not all published: %s", account.app, error)

    async def _finish(self, account: Account) -> None:
        async with self._busy.of(account):
            await self._publishing.finish(account)

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


def _problem(epoch: Epoch, stages: Sequence[Stage], staged: Iterable[StagedChunk]) -> str | None:
    """Why what is staged is not what was committed."""
    found = {key: list(some) for key, some in groupby(staged, key=attrgetter("stage"))}
    for stage in stages:
        there = found.get(epoch.prefix + stage.stage, [])
        if [each.chunk for each in there] != list(range(stage.chunks)):
            return f"stage {stage.stage!r}: {len(there)} of {stage.chunks} chunks are there"
        rows = sum(each.piece.rows for each in there)
        if rows != stage.rows:
            return f"stage {stage.stage!r}: {rows} rows were staged, not {stage.rows}"
    return None
