"""Which run a command is: never by a URL, a machine or a user, but by what it reads and writes."""

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
    """What a command is to do. ``about`` is what else makes it another run."""

    pipeline: str
    queues: tuple[str, ...]
    target: str
    about: tuple[str, ...] = ()
    is_stream: bool = False
    has_files: bool = False
    """Whether the target is a directory."""


class Identity(NamedTuple):
    """``known`` is what the server was told of the run, perhaps by another machine."""

    id: str
    checkpoint: str | None
    known: PipelineRun | None


@contextmanager
def identified(
    place: Place, asked: RunIdentity, client: Client, records: Records
) -> Iterator[Identity]:
    """The run that a command is, while no other process is the same."""
    store = store_of(client)
    checkpoint = place.located(place.checkpoint) if place.checkpoint else None
    files = partial(files_of, place)
    if asked.is_stream and asked.has_files:
        with files(asked.target).lock(lock_of(asked.target)):
            owner = claim(files, _owner(asked, store, checkpoint))
            known = _known(client, owner.id)
            _check_alone(known)
            yield Identity(owner.id, owner.place, known)
        return
    if asked.has_files:
        check_unowned(files(asked.target), asked.target)
    identity = identity_of(
        asked.pipeline,
        store=store,
        queues=asked.queues,
        target=asked.target,
        about=asked.about,
        checkpoint=checkpoint,
    )
    known = _known(client, identity)
    if asked.is_stream:
        _check_alone(known)
        _check_checkpoint(files, known, checkpoint or records.checkpoint_of(identity))
    yield Identity(identity, checkpoint, known)


def _owner(asked: RunIdentity, store: str, checkpoint: str | None) -> Owner:
    """What a directory is marked with if this is the first run that writes to it."""
    return Owner(
        id=f"{asked.pipeline}-{uuid4().hex[:8]}",
        path=asked.target,
        pipeline=asked.pipeline,
        store=store,
        queues=asked.queues,
        about=asked.about,
        checkpoint=checkpoint,
    )


def store_of(client: Client) -> str:
    """The id of the store, which is the same through each of its servers."""
    asked = post(JOURNAL_HEADS, HeadsBody(pattern=""), repeatable=True)
    return client.connection.send(asked).decode(HeadsResponse).heads.store


def files_of(place: Place, path: str) -> Files:
    if place.is_local(path):
        return LocalFiles()
    return SparkFiles(partial(open_session, place, "files"))


def _known(client: Client, identity: str) -> PipelineRun | None:
    """What the server was told of a run, unless it was not or does not say."""
    with suppress(SkepError):
        return client.pipelines.get(identity)
    return None


def _check_alone(known: PipelineRun | None) -> None:
    """A process here would hold a lock; of those on other machines the server knows."""
    if known is not None and known.state == "running" and known.host != this_host():
        raise Conflict(
            f"{known.id} is running already, on {known.host}; stop it there, or wait a minute "
            "if it is dead"
        )


def _check_checkpoint(files: FilesOf, known: PipelineRun | None, checkpoint: str) -> None:
    """Without its checkpoint a stream would write once more what it has written."""
    if known is None or not known.messages or has_begun(files(checkpoint), checkpoint):
        return
    raise Conflict(
        f"{known.id} has read {known.messages} messages, last on {known.host}, and its checkpoint "
        f"is not in {checkpoint}. Run it where that is; with a new --checkpoint it is another "
        "run, which begins with the first message"
    )
