"""Pipeline runs, as reported by the processes that run them."""

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
from skep.store.protocol import EntryStore

SPACE = "pipelines"
MAX_RUNS = 1000
SILENCE = timedelta(seconds=60)
"""A run that is silent for longer is shown as interrupted."""


class Pipelines:
    def __init__(self, store: EntryStore, committer: Committer) -> None:
        self._store = store
        self._table = EntryTable(store, SPACE, PipelineRun)
        self._committer = committer
        self._making_room = asyncio.Lock()

    async def put(self, run: PipelineRun) -> PipelineRun:
        """Store the report of a run, in place of its previous one.

        Beyond ``MAX_RUNS`` the oldest run is deleted, first of those that are not running.
        """
        check_run(run)
        return await run_to_completion(self._put(run))

    async def _put(self, run: PipelineRun) -> PipelineRun:
        async with self._making_room:
            while True:
                reported = replace(run, updated_at=self._now())
                update = self._table.put(run.id, reported)
                change = Change(entries=(update, *await self._room_for(run.id)))
                if isinstance(await self._committer.submit(change), Applied):
                    return reported

    async def _room_for(self, identity: str) -> list[EntryUpdate]:
        """The updates that delete old runs to make room for a new one."""
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
        """The last report of a run, if there is one."""
        run, _ = await self._table.find(check_name("id", identity))
        return None if run is None else self._shown(run)

    async def get(self, identity: str) -> PipelineRun:
        """The last report of a run; raises ``NotFound`` if there is none."""
        run = await self.find(identity)
        if run is None:
            raise NotFound(f"pipeline run {identity!r} does not exist")
        return run

    async def delete(self, identity: str) -> None:
        """Delete a run. A run that is still running reappears with its next report."""
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
