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
    typer.Option("--queue", help="A queue to read; may be given several times."),
]
Sql = Annotated[
    str | None, typer.Option(help="A statement in which each queue is a view with its name.")
]
Function = Annotated[
    str | None,
    typer.Option(help="A function instead: module:function, given a DataFrame for each queue."),
]
Schema = Annotated[
    str | None,
    typer.Option(help="Payloads as a column data: 'id STRING, total DOUBLE', infer, or variant."),
]


class PayloadFormat(StrEnum):
    """What the column payload is."""

    text = "text"
    binary = "binary"


Payloads = Annotated[
    PayloadFormat, typer.Option(help="The column payload: binary takes what is not UTF-8, too.")
]
ToQueue = Annotated[str | None, typer.Option(help="The queue for what comes out.")]
To = Annotated[str | None, typer.Option(help="Or a directory for it, as Parquet files.")]


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
    """Make other messages, or files, of messages, by SQL or a Python function.

    Each message is read once, and what is made of it is written once. The same command again
    goes on with what is new.
    """
    if (sql is None) == (function is None):
        raise typer.BadParameter("say what to do: --sql or --function")
    if (to_queue is None) == (to is None):
        raise typer.BadParameter("say where it goes: --to-queue or --to")
    interval = seconds_of(every) if follow else None
    about = (str(sql or function), str(schema))
    target = to_queue or place.located(str(to))
    asked = RunIdentity(
        "transform", tuple(queue), target, about, is_stream=True, has_files=to is not None
    )
    with job(place, asked, streams="each", allow_loss=allow_loss) as work:
        before = work.run.messages
        result = _result(work, sql, function, schema, payload_format)
        work.stream(_writer(work, result, files=to is not None), interval)
    done = work.run.messages - before
    output.print_done(
        {"run": work.run.id, "read": done, "readInAll": work.run.messages},
        f"{done} messages read, {work.run.messages} in all; what became of them is in {target}",
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
    """A queue as a stream of its own: Spark must know of each how far it is."""
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
