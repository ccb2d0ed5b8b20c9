"""``skep pipeline run archive``."""

from functools import partial
from typing import Annotated

import typer

from skep.cli import output
from skep.cli.connect import connect
from skep.cli.pipeline.identity import RunIdentity, files_of
from skep.cli.pipeline.job import job
from skep.cli.pipeline.options import AllowLoss, Every, Follow, Place, Queues, placed, seconds_of
from skep.cli.pipeline.retention import Archived, removable, removes_completed, whole_seconds_of

To = Annotated[str, typer.Option(help="Directory of the archive.")]
RemoveAfter = Annotated[
    str | None,
    typer.Option(
        help="Delete archived messages that all groups have consumed after this time: 1h, 7d."
    ),
]


@placed
def archive(
    to: To,
    queue: Queues = None,
    follow: Follow = False,
    every: Every = "1m",
    remove_after: RemoveAfter = None,
    allow_loss: AllowLoss = False,
    *,
    place: Place,
) -> None:
    """Copy queues to Parquet files, each message exactly once.

    There is one directory per queue and day; messages in a file are sorted by partition and
    offset. Repeat the command to continue with new messages.
    """
    to = place.located(to)
    queues = tuple(sorted(set(queue or ())))
    interval = seconds_of(every) if follow else None
    age = None if remove_after is None else whole_seconds_of(remove_after)
    with connect(place.url, place.token) as client:
        if age is not None:
            removable(client, queues)
        identity = RunIdentity("archive", queues, to, is_stream=True, has_files=True)
        with job(place, identity, streams="together", allow_loss=allow_loss) as work:
            from skep.pipelines.archive import archiving, sorting

            archived = Archived(client, work, partial(files_of, place))
            archived.advance()
            if age is not None or removes_completed(client, queues):
                archived.check()
            if age is not None:
                archived.remove_after(age)
            before = work.run.messages
            with sorting(work.spark):
                writer = archiving(work.spark, work.source, to, *work.run.groups)
                work.stream(writer, interval, archived.advance_if_possible)
            archived.advance()
    done = work.run.messages - before
    output.print_done(
        {"run": work.run.id, "archived": done, "archivedInAll": work.run.messages},
        f"archived {done} messages in {to}, {work.run.messages} in total",
        as_json=place.as_json,
    )
