"""Deletion of archived messages from queues."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import typer

from skep.cli import output
from skep.cli.pipeline.job import Job
from skep.cli.pipeline.options import seconds_of
from skep.client.request import post, put, read
from skep.client.sync_client import Client
from skep.errors import Conflict, Corrupted, NotFound, OutcomeUnknown, Unavailable
from skep.model.journal import Position
from skep.model.queue import Queue
from skep.pipelines.output import FilesOf, positions
from skep.pipelines.source import EVERY_QUEUE
from skep.wire.body import raw
from skep.wire.journal.journal import BeginBody, BeginResponse, MoveBody, ReaderResponse
from skep.wire.paths import journal_group

if TYPE_CHECKING:
    from skep.pipelines.archive import Gap

SHOWN = 20


def whole_seconds_of(text: str) -> int:
    """Return a duration in whole seconds, at least 1: for retention 0 is never."""
    seconds = seconds_of(text)
    if seconds < 1:
        raise typer.BadParameter(f"must be at least 1s, not {text!r}")
    return int(seconds)


def removable(client: Client, queues: Sequence[str]) -> list[Queue]:
    """Return the archived queues; raise if one deletes messages that are not archived."""
    archived = [queue for queue in client.queues.list() if not queues or queue.name in queues]
    for queue in archived:
        if queue.options.retention_seconds:
            raise Conflict(
                f"queue {queue.name!r} deletes messages after {queue.options.retention_seconds} s, "
                "archived or not; turn that off with skep queue configure --retention-seconds 0"
            )
    return archived


class Archived:
    """The verified position of an archive, which is the position of its reader group.

    Queues do not delete messages beyond it: every deleted message was read back from the archive.
    """

    def __init__(self, client: Client, work: Job, files_of: FilesOf) -> None:
        (group,) = work.run.groups
        self._client = client
        self._work = work
        self._files = files_of(work.run.checkpoint)
        self._path = journal_group(group)
        self._position = _begin(client, self._path, work.run.queues)

    def advance(self) -> None:
        """Read back what was written since the last call, and advance the group."""
        for end in positions(self._files, self._work.run.checkpoint):
            if end != self._position:
                self._check(self._missing(self._position, end))
                moved = MoveBody(position=end)
                self._client.connection.send(post(f"{self._path}/position", moved, repeatable=True))
                self._position = end

    def advance_if_possible(self) -> None:
        """Like ``advance``, but continue if the server is unavailable."""
        try:
            self.advance()
        except (Unavailable, OutcomeUnknown) as error:
            output.note(f"could not advance the archive's group yet, will retry: {error}")

    def check(self) -> None:
        """Read back all that queues may delete; stop their deletion if a message is missing."""
        gaps = self._missing(None, self._position)
        for name in sorted({gap.queue for gap in gaps}):
            queue = self._client.queues.get(name)
            configure(self._client, queue, completed_retention_seconds=0)
        self._check(gaps)

    def remove_after(self, seconds: int) -> None:
        """Let queues delete messages of this age that are archived and consumed by all groups.

        A queue waits for the archive only if its group has a position in it. A queue that the
        archive has not reached yet is configured by the next run.
        """
        numbers = self._position.numbers()
        for queue in removable(self._client, self._work.run.queues):
            if numbers.get(queue.name) == queue.number:
                configure(
                    self._client,
                    queue,
                    retention_enabled=True,
                    completed_retention_seconds=seconds,
                )

    def _missing(self, start: Position | None, end: Position) -> "list[Gap]":
        from skep.pipelines.archive import missing_from

        work = self._work
        return missing_from(work.spark, work.source, work.run.target, start, end)

    def _check(self, gaps: "list[Gap]") -> None:
        if gaps:
            raise Corrupted(
                f"the archive {self._work.run.target} lacks {missing_words(gaps)}. No message is "
                "deleted from these queues; restore the files, or archive to another --to"
            )


def missing_words(gaps: "Sequence[Gap]") -> str:
    """Describe how many messages are missing, and the first gaps."""
    total = sum(gap.last - gap.first + 1 for gap in gaps)
    shown = [
        f"queue {gap.queue!r} partition {gap.partition!r} offsets {gap.first} to {gap.last}"
        for gap in gaps[:SHOWN]
    ]
    more = f", and {len(gaps) - SHOWN} more ranges" if len(gaps) > SHOWN else ""
    return f"{total} messages: {', '.join(shown)}{more}"


def removes_completed(client: Client, queues: Sequence[str]) -> bool:
    """Whether one of the queues deletes messages that all groups have consumed."""
    return any(
        queue.options.retention_enabled and queue.options.completed_retention_seconds
        for queue in client.queues.list()
        if not queues or queue.name in queues
    )


def configure(client: Client, queue: Queue, **changed: object) -> None:
    """Change some options of a queue; its labels and all other options stay."""
    options = msgspec.structs.asdict(queue.options) | changed
    client.queues.configure(queue.name, namespace=queue.namespace, task=queue.task, **options)


def _begin(client: Client, path: str, queues: tuple[str, ...]) -> Position:
    """Return the position of a group; create the group if it does not exist."""
    try:
        return client.connection.send(read(path)).decode(ReaderResponse).position
    except NotFound:
        body = BeginBody(
            queues=queues or None, pattern=None if queues else EVERY_QUEUE, start=raw("earliest")
        )
        return client.connection.send(put(path, body)).decode(BeginResponse).position
