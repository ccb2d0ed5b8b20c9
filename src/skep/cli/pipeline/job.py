"""A running pipeline: its Spark session, its record, and its end."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from skep.cli import output
from skep.cli.connect import connect
from skep.cli.exit_code import FAILED, print_error
from skep.cli.output import Step
from skep.cli.pipeline.identity import RunIdentity, identified
from skep.cli.pipeline.options import Place
from skep.cli.pipeline.run_reporter import reporting
from skep.cli.pipeline.session import open_session
from skep.client.request import read
from skep.client.sync_client import Client
from skep.errors import SkepError
from skep.model.pipeline import PipelineRun
from skep.pipelines.record import Records, RunRecord, Streams
from skep.pipelines.source import Source
from skep.wire.journal.journal import ReaderResponse
from skep.wire.paths import journal_group

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


_FLAGS = {
    "failOnDataLoss=false": "--allow-loss",
    "payloadFormat=binary": "--payload-format binary",
}
"""Options of the Spark source, and the command-line options that set them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The resources of a running pipeline."""

    spark: "SparkSession"
    source: Source
    run: RunRecord
    records: Records
    expected: int
    """Number of messages to read, when the run starts."""

    def stream(
        self,
        writer: "DataStreamWriter",
        every: float | None,
        written: Callable[[], None] = lambda: None,
    ) -> None:
        """Run a stream with a progress bar; ``written`` is called after each batch."""
        from skep.pipelines.run import run_stream

        with self.progress(None if every else self.expected) as step:

            def advance(messages: int) -> None:
                written()
                step(messages)

            interval = None if every is None else f"{every} seconds"
            ended = run_stream(writer, self.run.checkpoint, advance, every=interval)
        if not ended:
            self.run.state = "stopped"

    @contextmanager
    def progress(self, total: int | None) -> Iterator[Step]:
        """Yield a function that counts messages, on the terminal and in the record."""
        with output.progress(self.run.pipeline, total) as step:

            def advance(messages: int) -> None:
                step(messages)
                self.records.tell(self.run, messages)

            yield advance


@contextmanager
def job(
    place: Place, asked: RunIdentity, *, streams: Streams = "none", allow_loss: bool = False
) -> Iterator[Job]:
    """Start a job: check the server and the queues, open Spark, and record the end."""
    from skep.spark.session import check_pyspark

    check_pyspark()
    source = Source(place.url, asked.queues, place.token, allow_loss)
    with ExitStack() as stack:
        records = Records(told=stack.enter_context(reporting(place.url, place.token)))
        with connect(place.url, place.token) as client:
            _check_queues(client, asked.queues)
            messages = _messages(client, lambda name: not asked.queues or name in asked.queues)
            found = stack.enter_context(identified(place, asked, client, records))
            run = records.begin(
                found.id,
                pipeline=asked.pipeline,
                url=place.url,
                queues=asked.queues,
                target=asked.target,
                checkpoint=found.checkpoint,
                streams=streams,
                known=found.known,
            )
            lag = lag_of(client, run)
        with _recorded(records, run):
            spark = open_session(place, asked.pipeline)
            expected = messages if lag is None else lag
            yield Job(spark=spark, source=source, run=run, records=records, expected=expected)


@contextmanager
def _recorded(records: Records, run: RunRecord) -> Iterator[None]:
    from pyspark.errors import PySparkException

    from skep.pipelines.run import reason_of

    try:
        yield
    except PySparkException as error:
        # In terms of command-line options.
        reason = reason_of(error)
        for option, flag in _FLAGS.items():
            reason = reason.replace(option, flag)
        records.end(run, "failed", reason)
        print_error(f"{run.pipeline} failed: {reason}")
        raise typer.Exit(FAILED) from None
    except (KeyboardInterrupt, typer.Exit):
        # Interrupted, or not confirmed.
        records.end(run, "stopped")
        raise
    except BaseException as error:
        records.end(run, "failed", str(error) or type(error).__name__)
        raise
    records.end(run, "done" if run.state == "running" else run.state)


def lag_of(client: Client, run: RunRecord | PipelineRun) -> int | None:
    """Return the lag of the streams of a run; None if the server does not know all of them."""
    with suppress(SkepError):
        paths = [journal_group(group) for group in run.groups]
        readers = [client.connection.send(read(path)).decode(ReaderResponse) for path in paths]
        if readers:
            return sum(reader.lag for reader in readers) + _in_new_queues(client, run, readers)
    return None


def _in_new_queues(
    client: Client, run: RunRecord | PipelineRun, readers: Sequence[ReaderResponse]
) -> int:
    """Return the messages in queues that a run over all queues has not seen yet."""
    seen = {name for reader in readers for name in reader.position.queues}
    return 0 if run.queues else _messages(client, lambda name: name not in seen)


def _check_queues(client: Client, queues: tuple[str, ...]) -> None:
    """Reject unknown queues before Spark is started."""
    known = [queue.name for queue in client.queues.list()]
    for name in queues:
        if name not in known:
            matches = get_close_matches(name, known, n=1)
            hint = f"; did you mean {matches[0]!r}?" if matches else ""
            raise typer.BadParameter(f"queue {name!r} does not exist{hint}")


def _messages(client: Client, among: Callable[[str], bool]) -> int:
    summaries = client.queues.summaries()
    return sum(summary.counts.total for summary in summaries if among(summary.queue.name))


def report_path(to: str, report: str | None) -> Path:
    """Return the path of the report, which is always written on this machine."""
    if report is not None:
        return Path(report)
    if "://" in to:
        raise typer.BadParameter("--report is required if --to is not a local directory")
    return Path(to) / "report.html"
