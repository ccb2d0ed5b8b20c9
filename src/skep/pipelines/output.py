"""Directories that streams write to: each belongs to one run for ever.

Spark numbers the batches of a stream in its checkpoint, and a directory skips the numbers that it
has already. A second run into the same directory, or one whose checkpoint is lost, would lose
messages without an error. So a directory names its run, keeps its checkpoint, and is checked
against it.
"""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from skep.errors import Conflict
from skep.model.journal import Position
from skep.pipelines.files import SINK_LOG, Files, last_batch

ROOM = "_skep"
"""What begins with an underscore is not data, for Spark and most others."""

FilesOf: TypeAlias = Callable[[str], Files]
"""Who reads and makes files where a path is."""


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The run that a directory belongs to. Its id is that of the first run.

    Without a ``checkpoint`` it has its own inside of the directory. The ``path`` is for ever the
    same: Spark's log of the directory has it in the name of each file.
    """

    id: str
    path: str
    pipeline: str
    store: str
    queues: tuple[str, ...]
    about: tuple[str, ...] = ()
    checkpoint: str | None = None

    @property
    def place(self) -> str:
        return self.checkpoint or f"{self.path}/{ROOM}/checkpoint"

    def __str__(self) -> str:
        queues = ", ".join(self.queues) or "all queues"
        about = f" ({', '.join(self.about)})" if self.about else ""
        checkpoint = f", checkpoint {self.checkpoint}" if self.checkpoint else ""
        return f"{self.pipeline} of {queues}{about} in store {self.store}{checkpoint}"


_WORDS = {
    "pipeline": "pipeline",
    "store": "store (--url)",
    "queues": "queues (--queue)",
    "about": "statement, function or schema",
    "checkpoint": "--checkpoint",
}


def lock_of(path: str) -> str:
    return f"{path}/{ROOM}/lock"


def find_owner(files: Files, path: str) -> Owner | None:
    text = files.read(f"{path}/{ROOM}/run")
    try:
        return None if text is None else msgspec.json.decode(text, type=Owner)
    except msgspec.MsgspecError as error:
        raise Conflict(
            f"{path}/{ROOM}/run does not name a run: {error}; give another --to"
        ) from None


def check_unowned(files: Files, path: str) -> None:
    """Refuse to write a report among the files of a stream."""
    owner = find_owner(files, path)
    if owner is not None:
        raise Conflict(f"{path} belongs to run {owner.id}, {owner}; give another --to")


def claim(files_of: FilesOf, wanted: Owner) -> Owner:
    """The owner of a directory, which is this run from the first time on."""
    path, files = wanted.path, files_of(wanted.path)
    found = find_owner(files, path)
    if found is None:
        _check_unmarked(files_of, wanted)
        files.create(f"{path}/{ROOM}/run", msgspec.json.encode(wanted).decode())
        found = find_owner(files, path)
        assert found is not None
    _check_same(found, wanted)
    _check_batches(files_of, path, found.place)
    return found


def _check_same(owner: Owner, wanted: Owner) -> None:
    if owner.path.removeprefix("file://") != wanted.path.removeprefix("file://"):
        raise Conflict(
            f"{wanted.path} was moved or copied from {owner.path}, which Spark's log of it still "
            "names: move it back, or give another --to"
        )
    # Without --checkpoint it is the one of before.
    names = ["pipeline", "store", "queues", "about", *(["checkpoint"] if wanted.checkpoint else [])]
    other = [_WORDS[name] for name in names if getattr(owner, name) != getattr(wanted, name)]
    if other:
        raise Conflict(
            f"{wanted.path} belongs to run {owner.id}, {owner}. This run differs in "
            f"{', '.join(other)}: give it another --to, or the same as that run"
        )


def _check_unmarked(files_of: FilesOf, wanted: Owner) -> None:
    """A directory without a mark may be that of a stream only if the checkpoint proves it."""
    path = wanted.path
    if files_of(path).written(path)[0] < 0:
        return
    given = wanted.checkpoint
    known = positions(files_of(given), given) if given else []
    queues = {name for position in known for name in position.queues}
    is_same = {position.store for position in known} == {wanted.store}
    if not is_same or (wanted.queues and queues != set(wanted.queues)):
        raise Conflict(
            f"{path} is the output of a stream that does not say of which. Give another --to; or "
            "the --checkpoint of the run that wrote it, which skep pipeline status --json shows"
        )


def _check_batches(files_of: FilesOf, path: str, checkpoint: str) -> None:
    """Raise ``Conflict`` unless a directory and a checkpoint have come as far as each other."""
    least, most = files_of(path).written(path)
    logs = (f"{checkpoint}/offsets", f"{checkpoint}/commits")
    begun, done = (last_batch(files_of(checkpoint).names(log)) for log in logs)
    if least > begun:
        raise Conflict(
            f"the checkpoint of {path} is lost, or older than it: it is at batch {begun}, the "
            f"directory at {least}, and what lies between would be skipped. Bring {checkpoint} "
            "back, or give another --to"
        )
    if most < done:
        raise Conflict(
            f"{path}/{SINK_LOG} is lost, or older than its checkpoint: it is at batch {most}, the "
            f"checkpoint at {done}. Bring it back, or give another --to"
        )


def positions(files: Files, checkpoint: str) -> list[Position]:
    """Where the streams of a checkpoint are: up to there their output is written."""
    done = last_batch(files.names(f"{checkpoint}/commits"))
    if done < 0:
        return []
    text = files.read(f"{checkpoint}/offsets/{done}") or ""
    # The version, a line about the batch, and one for each stream, which may not have begun.
    lines = [line for line in text.splitlines()[2:] if line != "-"]
    try:
        return [msgspec.json.decode(line, type=Position) for line in lines]
    except msgspec.MsgspecError:
        raise Conflict(f"{checkpoint} is the checkpoint of a stream that reads no queue") from None


def has_begun(files: Files, checkpoint: str) -> bool:
    return last_batch(files.names(f"{checkpoint}/offsets")) >= 0
