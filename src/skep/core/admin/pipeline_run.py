"""Runs of pipelines: what those who run them say, kept for everybody else to see."""

import asyncio
from datetime import datetime, timedelta

from msgspec.structs import replace

from skep.core.aio import run_to_completion
from skep.core.log.committer import Committer
from skep.core.log.entry_table import EntryTable, read_entries
from skep.errors import NotFound
from skep.model.change import Applied, Change, EntryUpdate
from skep.model.name import check_name, to_datetime
from skep.model.pipeline import PipelineRun, check_run
from skep.store.protocol import Store

SPACE = "pipelines"
MAX_RUNS = 1000
SILENCE = timedelta(seconds=60)
"""After this a run that says that it is running is thought to be dead."""


class Pipelines:
    def __init__(self, store: Store, committer: Committer) -> None:
        self._store = store
        self._table = EntryTable(store, SPACE, PipelineRun)
        self._committer = committer
        self._making_room = asyncio.Lock()

    async def put(self, run: PipelineRun) -> PipelineRun:
        """Keep what is said of a run, in place of what was said before.

        Of too many the oldest goes, and before all others the oldest that is not running.
        """
        check_run(run)
        return await run_to_completion(self._put(run))

    async def _put(self, run: PipelineRun) -> PipelineRun:
        async with self._making_room:
            while True:
                heard = replace(run, updated_at=self._now())
                update = self._table.put(run.id, heard)
                change = Change(entries=(update, *await self._room_for(run.id)))
                if isinstance(await self._committer.submit(change), Applied):
                    return heard

    async def _room_for(self, identity: str) -> list[EntryUpdate]:
        """Take those away that a new run has no room beside."""
        if await self._store.find_entries(SPACE, [identity]):
            return []
        kept = await read_entries(self._store, SPACE)
        kept.sort(key=lambda entry: _age(self._shown(self._table.decode(entry))))
        return [
            self._table.delete(entry.key, entry.version)
            for entry in kept[: max(0, len(kept) - MAX_RUNS + 1)]
        ]

    async def list(self) -> list[PipelineRun]:
        """All runs, the newest first."""
        runs = [self._shown(run) for run in await self._table.all()]
        return sorted(runs, key=_updated_at, reverse=True)

    async def find(self, identity: str) -> PipelineRun | None:
        """What was last said of a run, if it is known."""
        run, _ = await self._table.find(check_name("id", identity))
        return None if run is None else self._shown(run)

    async def get(self, identity: str) -> PipelineRun:
        """The same of one that must be known."""
        found = await self.find(identity)
        if found is None:
            raise NotFound(f"there is no run {identity!r} of a pipeline")
        return found

    async def delete(self, identity: str) -> None:
        """Forget a run. One that is still running is back when it is next heard of."""
        await self.get(identity)
        await self._committer.submit(Change(entries=(self._table.delete(identity),)))

    def _shown(self, run: PipelineRun) -> PipelineRun:
        silent = self._now() - _updated_at(run) > SILENCE
        return replace(run, state="interrupted") if run.state == "running" and silent else run

    def _now(self) -> datetime:
        return to_datetime(self._store.clock.now())


def _age(run: PipelineRun) -> tuple[bool, datetime]:
    return run.state == "running", _updated_at(run)


def _updated_at(run: PipelineRun) -> datetime:
    assert run.updated_at is not None
    return run.updated_at
