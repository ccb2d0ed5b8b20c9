"""``skep pipeline run transform``."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from skep.cli import output
from skep.cli.pipeline.identity import RunIdentity
from skep.cli.pipeline.job import Job, job
from skep.cli.pipeline.options import AllowLoss, Every, Follow, Place, placed, seconds_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

From = Annotated[
    list[str],
    typer.Option("--queue", help="Queue to read. Repeatable."),
]
Sql = Annotated[str | None, typer.Option(help="SQL query; each queue is a view of its name.")]
Function = Annotated[
    str | None,
    typer.Option(help="Function to use instead, module:function; takes a DataFrame per queue."),
]
Schema = Annotated[
    str | None,
    typer.Option(help="Schema of the column data: 'id STRING, total DOUBLE', infer, or variant."),
]


class PayloadFormat(StrEnum):
    """The type of the column payload."""

    text = "text"
    binary = "binary"


Payloads = Annotated[
    PayloadFormat,
    typer.Option(help="Type of the column payload; binary allows payloads that are not UTF-8."),
]
ToQueue = Annotated[str | None, typer.Option(help="Target queue.")]
To = Annotated[str | None, typer.Option(help="Target directory, for Parquet files.")]


@placed
def transform(
    queue: From,
    sql: Sql = None,
    function: Function = None,
    schema: Schema = None,
    payload_format: Payloads = PayloadFormat.text,
    to_queue: ToQueue = None,
    to: To = None,
    follow: Follow = False,
    every: Every = "1s",
    allow_loss: AllowLoss = False,
    *,
    place: Place,
) -> None:
    """Transform messages by SQL or a Python function.

    The results go to a queue or to files, exactly once. Repeat the command to
    continue with new messages.
    """
    if (sql is None) == (function is None):
        raise typer.BadParameter("give either --sql or --function")
    if (to_queue is None) == (to is None):
        raise typer.BadParameter("give either --to-queue or --to")
    interval = seconds_of(every) if follow else None
    about = (str(sql or function), str(schema))
    target = to_queue or place.located(str(to))
    identity = RunIdentity(
        "transform", tuple(queue), target, about, is_stream=True, has_files=to is not None
    )
    with job(place, identity, streams="each", allow_loss=allow_loss) as work:
        before = work.run.messages
        result = _result(work, sql, function, schema, payload_format)
        work.stream(_writer(work, result, files=to is not None), interval)
    done = work.run.messages - before
    output.print_done(
        {"run": work.run.id, "read": done, "readInAll": work.run.messages},
        f"transformed {done} messages to {target}, {work.run.messages} in total",
        as_json=place.as_json,
    )


def _result(
    work: Job, sql: str | None, function: str | None, schema: str | None, payloads: PayloadFormat
) -> "DataFrame":
    from skep.pipelines.transform import by_sql, load_step

    step = load_step(function) if function else None
    streams = zip(work.run.queues, work.run.groups, strict=True)
    frames = {queue: _frame(work, queue, group, schema, payloads) for queue, group in streams}
    if step is not None:
        return step(*frames.values())
    return by_sql(work.spark, str(sql), frames)


def _frame(
    work: Job, queue: str, group: str, schema: str | None, payloads: PayloadFormat
) -> "DataFrame":
    """Return a queue as a stream of its own: Spark tracks the position of each."""
    from skep.pipelines.steps.transform import inferred, with_data
    from skep.pipelines.transform import INFER

    one = work.source.only(queue)

    def read_some() -> str:
        return inferred(one.read(work.spark, payloadFormat=payloads))

    if schema == INFER:
        schema = work.records.keep(work.run, queue, read_some)
    return with_data(one.stream(work.spark, group, payloadFormat=payloads), schema)


def _writer(work: Job, result: "DataFrame", *, files: bool) -> "DataStreamWriter":
    from skep.pipelines.steps.transform import to_messages

    if files:
        writer = result.writeStream.format("parquet")
        return writer.options(path=work.run.target, compression="zstd")
    options = work.source.server | {"queue": work.run.target}
    return to_messages(result).writeStream.format("skep").options(**options)
