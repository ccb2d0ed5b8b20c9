"""Letting queues remove what is in an archive."""

from collections.abc import Sequence

import msgspec
import typer

from skep.cli.pipeline.options import seconds_of
from skep.client.connection import put, read
from skep.client.sync_client import Client
from skep.errors import Conflict, NotFound
from skep.model.journal import Position
from skep.model.queue import Queue
from skep.pipelines.record import Run
from skep.pipelines.source import EVERY_QUEUE
from skep.wire.body import raw
from skep.wire.journal import BeginAnswer, BeginBody, ReaderAnswer
from skep.wire.paths import API, segment


def whole_seconds_of(text: str) -> int:
    """Seconds as retention counts them, for which 0 is never."""
    seconds = seconds_of(text)
    if seconds < 1:
        raise typer.BadParameter(f"must be at least 1s, not {text!r}")
    return int(seconds)


def removable(client: Client, queues: Sequence[str]) -> list[Queue]:
    """The queues that are archived, if none of them removes what is not in the archive."""
    found = [queue for queue in client.queues.list() if not queues or queue.name in queues]
    for queue in found:
        if queue.options.retention_seconds:
            raise Conflict(
                f"queue {queue.name!r} removes messages after {queue.options.retention_seconds} s, "
                "archived or not; skep queue configure --retention-seconds 0 ends that"
            )
    return found


def remove_archived(client: Client, run: Run, seconds: int) -> None:
    """Let the queues of an archive remove what is so old, archived, and done by every group.

    A queue waits for the archive only if its group stands in it. So one that the archive has not
    come to yet keeps all it has until the next run.
    """
    (group,) = run.groups
    place = _place(client, f"{API}/journal/groups/{segment(group)}", run.queues).numbers()
    for queue in removable(client, run.queues):
        if place.get(queue.name) == queue.number:
            options = msgspec.structs.asdict(queue.options)
            options |= {"retention_enabled": True, "completed_retention_seconds": seconds}
            labels = {"namespace": queue.namespace, "task": queue.task}
            client.queues.configure(queue.name, **labels, **options)


def _place(client: Client, path: str, queues: tuple[str, ...]) -> Position:
    """Where a group is; a new one begins here, and its stream is given the same answer."""
    try:
        return client.connection.send(read(path)).decode(ReaderAnswer).position
    except NotFound:
        asked = BeginBody(
            queues=queues or None, pattern=None if queues else EVERY_QUEUE, start=raw("earliest")
        )
        return client.connection.send(put(path, asked)).decode(BeginAnswer).position
