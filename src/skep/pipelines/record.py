"""What runs of pipelines leave behind: where they are, how far they came, how they ended."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from fcntl import LOCK_EX, LOCK_NB, flock
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias

import msgspec

from skep.errors import Conflict
from skep.model.pipeline import PipelineRun, State

Streams: TypeAlias = Literal["none", "together", "each"]
"""Whether queues are read as streams: all in one, or each in one of its own."""


class RunRecord(msgspec.Struct, kw_only=True):
    """A run of a pipeline. The same pipeline over the same things is the same run, gone on with."""

    id: str
    pipeline: str
    url: str
    queues: tuple[str, ...]
    target: str
    checkpoint: str
    groups: tuple[str, ...] = ()
    """Under which the server counts how far it is behind; only streams have any."""
    state: State = "running"
    messages: int = 0
    """Of a stream and of a replay in all its runs together."""
    batches: int = 0
    started_at: datetime
    updated_at: datetime
    error: str | None = None
    kept: dict[str, str] = {}
    """What was decided at the beginning, and stays so."""


class Records:
    """The runs that this machine knows, a file for each."""

    def __init__(
        self, directory: Path | None = None, *, told: Callable[[RunRecord], None] | None = None
    ) -> None:
        self.directory = directory or data_directory()
        self._held: dict[str, BinaryIO] = {}
        self._told = told
        """Called whenever something of a run has changed."""

    def begin(
        self,
        identity: str,
        *,
        pipeline: str,
        url: str,
        queues: tuple[str, ...],
        target: str,
        checkpoint: str | None = None,
        streams: Streams = "none",
        known: PipelineRun | None = None,
    ) -> RunRecord:
        """Begin a run, or go on with one. Without a checkpoint it has one of its own.

        ``known`` is how far it came on other machines.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        self._hold(identity)
        before = self._read(self.directory / f"{identity}.json")
        told = [each for each in (before, known) if each]
        now = datetime.now(UTC)
        run = RunRecord(
            id=identity,
            pipeline=pipeline,
            url=url,
            queues=queues,
            target=target,
            checkpoint=checkpoint or self.checkpoint_of(identity),
            groups=_groups(identity, queues, streams),
            messages=max((each.messages for each in told), default=0),
            batches=max((each.batches for each in told), default=0),
            kept=before.kept if before else {},
            started_at=now,
            updated_at=now,
        )
        self.save(run)
        return run

    def checkpoint_of(self, identity: str) -> str:
        """Where a run keeps its place if it is told nothing else."""
        return str(self.directory / identity)

    def _hold(self, identity: str) -> None:
        """Two of the same would write to the same checkpoint."""
        lock = (self.directory / f"{identity}.lock").open("ab")
        try:
            flock(lock, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise Conflict(f"{identity} is running already; see skep pipeline status") from None
        self._held[identity] = lock

    def release(self, run: RunRecord) -> None:
        """Let others have it. The end of the process does the same."""
        self._held.pop(run.id).close()

    def tell(self, run: RunRecord, messages: int) -> None:
        """Another batch is through."""
        run.messages += messages
        run.batches += 1
        self.save(run)

    def count(self, run: RunRecord, messages: int) -> None:
        """So many messages are what this run is about: it reads all of them anew each time."""
        run.messages, run.batches = messages, 1
        self.save(run)

    def keep(self, run: RunRecord, name: str, decide: Callable[[], str]) -> str:
        """Decide something once for all runs."""
        if name not in run.kept:
            run.kept[name] = decide()
            self.save(run)
        return run.kept[name]

    def end(self, run: RunRecord, state: State, error: str | None = None) -> None:
        run.state, run.error = state, error
        self.save(run)
        self.release(run)

    def save(self, run: RunRecord) -> None:
        """Whole or not at all: somebody may be reading it."""
        run.updated_at = datetime.now(UTC)
        path = self.directory / f"{run.id}.json"
        fresh = path.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(run))
        fresh.replace(path)
        if self._told is not None:
            self._told(run)

    def list(self) -> list[RunRecord]:
        """All runs, the newest first. What says that it is running, and is not, was interrupted."""
        runs = [run for path in self.directory.glob("*.json") if (run := self._read(path))]
        for run in runs:
            if run.state == "running" and not self._is_held(run):
                run.state = "interrupted"
        return sorted(runs, key=lambda run: run.updated_at, reverse=True)

    def _is_held(self, run: RunRecord) -> bool:
        with (self.directory / f"{run.id}.lock").open("ab") as lock:
            try:
                flock(lock, LOCK_EX | LOCK_NB)
            except BlockingIOError:
                return True
            return False

    def _read(self, path: Path) -> RunRecord | None:
        try:
            return msgspec.json.decode(path.read_bytes(), type=RunRecord)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None


def data_directory() -> Path:
    """Where a person's programs keep their own things."""
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share"
    return Path(home) / "skep" / "pipelines"


def identity_of(
    pipeline: str,
    *,
    store: str,
    queues: tuple[str, ...],
    target: str,
    about: tuple[str, ...] = (),
    checkpoint: str | None = None,
) -> str:
    """The same for the same over the same things, whoever asks from where through which URL.

    ``about`` is what makes it another run, beside all that is recorded of it.
    """
    parts = (store, queues, target, about, checkpoint)
    return f"{pipeline}-{sha256(repr(parts).encode()).hexdigest()[:8]}"


def _groups(identity: str, queues: tuple[str, ...], streams: Streams) -> tuple[str, ...]:
    name = f"pipeline-{identity}"
    if streams == "each":
        return tuple(f"{name}-{queue}" for queue in queues)
    return (name,) if streams == "together" else ()
