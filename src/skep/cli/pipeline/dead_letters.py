"""``skep pipeline run dead-letters``."""

from typing import TYPE_CHECKING, Annotated

import typer

from skep.cli import output
from skep.cli.connect import connect
from skep.cli.options import Yes, confirm
from skep.cli.pipeline.identity import RunIdentity
from skep.cli.pipeline.job import job
from skep.cli.pipeline.options import Place, Queues, placed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

To = Annotated[str | None, typer.Option(help="Directory for the full results, as Parquet files.")]
Top = Annotated[int, typer.Option(min=1, help="Number of classes and partitions to print.")]
Class = Annotated[str | None, typer.Option("--class", help="Only errors of this class.")]
Where = Annotated[str | None, typer.Option(help="Only dead letters that match this SQL condition.")]
Redrive = Annotated[bool, typer.Option("--redrive", help="Replay the selected dead letters.")]


@placed
def dead_letters(
    queue: Queues = None,
    error_class: Class = None,
    where: Where = None,
    top: Top = 10,
    to: To = None,
    redrive: Redrive = False,
    yes: Yes = False,
    *,
    place: Place,
) -> None:
    """Group dead letters by error, and replay a selection.

    Errors are of one class if they differ only in numbers, ids and quoted texts.
    """
    to = place.located(to) if to else None
    identity = RunIdentity("dead-letters", tuple(queue or ()), to or "", has_files=to is not None)
    with job(place, identity) as work:
        from skep.pipelines.steps.dead_letters import affected, causes, chosen, classified

        found = classified(work.source.view(work.spark, "dead-letters"))
        letters = chosen(found, error_class, where).cache()
        try:
            work.records.count(work.run, letters.count())
            if redrive:
                _redrive(letters, place, yes=yes)
                return
            classes, places = causes(letters), affected(letters)
            if to:
                classes.write.mode("overwrite").parquet(f"{to}/causes")
                places.write.mode("overwrite").parquet(f"{to}/partitions")
            _print(classes, places, top, as_json=place.as_json)
        finally:
            letters.unpersist()


def _redrive(letters: "DataFrame", place: Place, *, yes: bool) -> None:
    from skep.pipelines.dead_letters import numbers_of

    count = letters.count()
    confirm(f"Replay {count} dead letters to the end of their partitions?", yes=yes)
    with (
        connect(place.url, place.token) as client,
        output.progress("replaying", count) as step,
    ):
        for queue, numbers in numbers_of(letters):
            client.dead_letters.replay(queue, numbers)
            step(len(numbers))
    output.print_done({"replayed": count}, f"{count} replayed", as_json=place.as_json)


def _print(classes: "DataFrame", places: "DataFrame", top: int, *, as_json: bool) -> None:
    causes = [row.asDict() for row in classes.limit(top).collect()]
    partitions = [row.asDict() for row in places.limit(top).collect()]
    if as_json:
        shown = {"causes": causes, "partitions": partitions}
        output.print_document({name: output.rows_json(rows) for name, rows in shown.items()})
    elif not causes:
        output.note("no matching dead letters")
    else:
        output.print_table(
            ("letters", "share", "queue", "groups", "partitions", "first at", "last at", "class"),
            [
                (
                    *(row["letters"], f"{row['share']:.1%}", row["queue"]),
                    *(", ".join(row["groups"]), row["partitions"]),
                    *(row["first_at"], row["last_at"], row["error_class"]),
                )
                for row in causes
            ],
        )
        output.print_text("")
        output.print_table(
            ("letters", "classes", "oldest at", "queue", "partition"),
            [
                [row[name] for name in ("letters", "classes", "oldest_at", "queue", "partition")]
                for row in partitions
            ],
        )
