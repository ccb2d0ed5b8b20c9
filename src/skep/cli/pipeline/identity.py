"""The identity of a run: what it reads and writes, not its URL, machine or user."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import NamedTuple
from uuid import uuid4

from skep.cli.pipeline.options import Place
from skep.cli.pipeline.run_reporter import this_host
from skep.cli.pipeline.session import open_session
from skep.client.request import post
from skep.client.sync_client import Client
from skep.errors import Conflict, SkepError
from skep.model.pipeline import PipelineRun
from skep.pipelines.files import Files, LocalFiles, SparkFiles
from skep.pipelines.output import FilesOf, Owner, check_unowned, claim, has_begun, lock_of
from skep.pipelines.record import Records, identity_of
from skep.wire.journal.journal import HeadsBody, HeadsResponse
from skep.wire.paths import JOURNAL_HEADS


class RunIdentity(NamedTuple):
    """What a run reads and writes. ``about`` has further options that identify it."""

    pipeline: str
    queues: tuple[str, ...]
    target: str
    about: tuple[str, ...] = ()
    is_stream: bool = False
    has_files: bool = False
    """Whether the target is a directory."""


class Identity(NamedTuple):
    """A resolved run; ``known`` is its last report to the server, perhaps by another machine."""

    id: str
    checkpoint: str | None
    known: PipelineRun | None


@contextmanager
def identified(
    place: Place, wanted: RunIdentity, client: Client, records: Records
) -> Iterator[Identity]:
    """Resolve the run of a command, and lock it against other processes."""
    store = store_of(client)
    checkpoint = place.located(place.checkpoint) if place.checkpoint else None
    files = partial(files_of, place)
    if wanted.is_stream and wanted.has_files:
        with files(wanted.target).lock(lock_of(wanted.target)):
            owner = claim(files, _owner(wanted, store, checkpoint))
            known = _known(client, owner.id)
            _check_alone(known)
            yield Identity(owner.id, owner.place, known)
        return
    if wanted.has_files:
        check_unowned(files(wanted.target), wanted.target)
    identity = identity_of(
        wanted.pipeline,
        store=store,
        queues=wanted.queues,
        target=wanted.target,
        about=wanted.about,
        checkpoint=checkpoint,
    )
    known = _known(client, identity)
    if wanted.is_stream:
        _check_alone(known)
        _check_checkpoint(files, known, checkpoint or records.checkpoint_of(identity))
    yield Identity(identity, checkpoint, known)


def _owner(wanted: RunIdentity, store: str, checkpoint: str | None) -> Owner:
    """Return the mark of a directory that no run has written to yet."""
    return Owner(
        id=f"{wanted.pipeline}-{uuid4().hex[:8]}",
        path=wanted.target,
        pipeline=wanted.pipeline,
        store=store,
        queues=wanted.queues,
        about=wanted.about,
        checkpoint=checkpoint,
    )


def store_of(client: Client) -> str:
    """Return the id of the store, which is the same for all its servers."""
    request = post(JOURNAL_HEADS, HeadsBody(pattern=""), repeatable=True)
    return client.connection.send(request).decode(HeadsResponse).heads.store


def files_of(place: Place, path: str) -> Files:
    if place.is_local(path):
        return LocalFiles()
    return SparkFiles(partial(open_session, place, "files"))


def _known(client: Client, identity: str) -> PipelineRun | None:
    """Return the last report of a run; None if there is none or the server is unavailable."""
    with suppress(SkepError):
        return client.pipelines.get(identity)
    return None


def _check_alone(known: PipelineRun | None) -> None:
    """Reject a run that is active on another machine; on this one, the lock does."""
    if known is not None and known.state == "running" and known.host != this_host():
        raise Conflict(
            f"{known.id} is already running on {known.host}; stop it there, or wait a minute if it "
            "has crashed"
        )


def _check_checkpoint(files: FilesOf, known: PipelineRun | None, checkpoint: str) -> None:
    """Reject a stream whose checkpoint is missing: it would write its results again."""
    if known is None or not known.messages or has_begun(files(checkpoint), checkpoint):
        return
    raise Conflict(
        f"{known.id} has read {known.messages} messages, last on {known.host}, but its checkpoint "
        f"is not in {checkpoint}. Run it where the checkpoint is; with a new --checkpoint it is a "
        "new run, which starts with the first message"
    )
