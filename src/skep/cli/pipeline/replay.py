"""``skep pipeline run replay``."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from skep.cli import output
from skep.cli.pipeline.identity import RunIdentity
from skep.cli.pipeline.job import Job, job
from skep.cli.pipeline.options import Place, placed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Ids(StrEnum):
    """Which transaction ids replayed messages get."""

    original = "original"
    new = "new"


Archive = Annotated[str | None, typer.Option(help="Replay from this archive directory.")]
FromQueue = Annotated[
    list[str] | None,
    typer.Option("--queue", help="Replay from this queue. Repeatable."),
]
To = Annotated[str | None, typer.Option(help="Target queue. Default: the queue of each message.")]
Since = Annotated[
    datetime | None, typer.Option(help="Only messages pushed at or after this time, in UTC.")
]
Until = Annotated[
    datetime | None, typer.Option(help="Only messages pushed before this time, in UTC.")
]
Where = Annotated[str | None, typer.Option(help="Only messages that match this SQL condition.")]
Rate = Annotated[
    int | None, typer.Option(min=1, help="Maximum messages per second. Default: unlimited.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Count messages without pushing them.")]
Name = Annotated[
    str, typer.Option(help="Name of the run; another name replays the same messages again.")
]
WithIds = Annotated[
    Ids,
    typer.Option(
        help="Transaction ids. With original ids, messages still in the queue are duplicates."
    ),
]


@placed
def replay(
    archive: Archive = None,
    queue: FromQueue = None,
    to: To = None,
    since: Since = None,
    until: Until = None,
    where: Where = None,
    rate: Rate = None,
    ids: WithIds = Ids.original,
    dry_run: DryRun = False,
    name: Name = "replay",
    *,
    place: Place,
) -> None:
    """Push messages of an archive or a queue again.

    Each message is pushed once, also if the command is interrupted and repeated.
    """
    if (archive is None) == (not queue):
        raise typer.BadParameter("give either --archive or --queue")
    archive = place.located(archive) if archive else None
    about = (str(archive), str(since), str(until), str(where), str(rate), ids, name)
    with job(place, RunIdentity("replay", tuple(queue or ()), to or "", about)) as work:
        messages = _messages(work, archive, since, until, where)
        if dry_run:
            _print_counts(messages, as_json=place.as_json)
            return
        before = work.run.messages
        _send(work, messages, rate, ids)
    output.print_done(
        {"run": work.run.id, "sent": work.run.messages - before},
        _summary(work.run.messages, work.run.messages - before),
        as_json=place.as_json,
    )


def _messages(
    work: Job,
    archive: str | None,
    since: datetime | None,
    until: datetime | None,
    where: str | None,
) -> "DataFrame":
    from skep.pipelines.archive import read_archive

    if archive is None:
        messages = work.source.read(work.spark, payloadFormat="binary")
    else:
        messages = read_archive(work.spark, archive)
    if since is not None:
        messages = messages.where(messages.created_at >= since.replace(tzinfo=UTC))
    if until is not None:
        messages = messages.where(messages.created_at < until.replace(tzinfo=UTC))
    return messages.where(where) if where else messages


def _send(work: Job, messages: "DataFrame", rate: int | None, ids: Ids) -> None:
    from skep.pipelines.replay import SLICE_SECONDS, Target, paced, slices
    from skep.pipelines.steps.replay import with_new_ids

    queue = {"queue": work.run.target} if work.run.target else {}
    target = Target(work.source.server | queue, work.run.id)
    if ids is Ids.new:
        messages = with_new_ids(messages)
    if rate is None:
        pieces = [messages]
    else:
        pieces = slices(work.spark, messages, rate * SLICE_SECONDS, work.run.checkpoint)
    # The server rejects batches that it already has; skipping them saves requests.
    first = work.run.batches
    with work.progress(None) as step:
        for number, piece in paced(pieces, first):
            step(target.send(piece, number))


def _print_counts(messages: "DataFrame", *, as_json: bool) -> None:
    from skep.pipelines.steps.replay import counted

    rows = [row.asDict() for row in counted(messages).collect()]
    columns = ("queue", "partitions", "messages", "first_at", "last_at")
    output.print_list(
        output.rows_json(rows),
        [column.replace("_", " ") for column in columns],
        [[row[column] for column in columns] for row in rows],
        as_json=as_json,
        empty="no matching messages",
    )


def _summary(total: int, sent: int) -> str:
    if sent or not total:
        return f"replayed {sent} messages"
    return f"{total} messages were replayed before; use another --name to replay them again"
