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
    """Which transaction ids messages have."""

    original = "original"
    new = "new"


Archive = Annotated[str | None, typer.Option(help="Messages of an archive: its directory.")]
FromQueue = Annotated[
    list[str] | None,
    typer.Option("--queue", help="Messages of this queue; may be given several times."),
]
To = Annotated[
    str | None, typer.Option(help="The queue that gets them.  [default: each the one it was in]")
]
Since = Annotated[datetime | None, typer.Option(help="Only what was pushed from then on, in UTC.")]
Until = Annotated[datetime | None, typer.Option(help="Only what was pushed before, in UTC.")]
Where = Annotated[str | None, typer.Option(help="Only those for which this holds, in SQL.")]
Rate = Annotated[int | None, typer.Option(min=1, help="Messages per second at most.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count.")]
Name = Annotated[str, typer.Option(help="Under another name the same is sent once more.")]
WithIds = Annotated[
    Ids, typer.Option(help="Their transaction ids: those that a queue knows are not pushed again.")
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
    """Push messages of an archive or a queue once more.

    What is sent is sent once, also if this is stopped and started again.
    """
    if (archive is None) == (not queue):
        raise typer.BadParameter("say what to replay: --archive or --queue")
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
        _words(work.run.messages, work.run.messages - before),
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
        found = work.source.read(work.spark, payloadFormat="binary")
    else:
        found = read_archive(work.spark, archive)
    if since is not None:
        found = found.where(found.created_at >= since.replace(tzinfo=UTC))
    if until is not None:
        found = found.where(found.created_at < until.replace(tzinfo=UTC))
    return found.where(where) if where else found


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
    # The server would not take what it has already. This saves to ask it.
    first = work.run.batches
    with work.progress(None) as step:
        for number, piece in paced(pieces, first):
            step(target.send(piece, number))


def _print_counts(messages: "DataFrame", *, as_json: bool) -> None:
    from skep.pipelines.steps.replay import counted

    rows = [row.asDict() for row in counted(messages).collect()]
    columns = ("queue", "partitions", "messages", "first_at", "last_at")
    output.print_list(
        output.shown_rows(rows),
        [column.replace("_", " ") for column in columns],
        [[row[column] for column in columns] for row in rows],
        as_json=as_json,
        empty="there are no such messages",
    )


def _words(in_all: int, sent: int) -> str:
    if sent or not in_all:
        return f"{sent} messages sent"
    return f"{in_all} messages were sent before; under another --name they are sent once more"
