"""A pipeline while it runs: its session, its record, and its end."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from skep.cli import output
from skep.cli.connect import connect
from skep.cli.exit_code import FAILED, complain
from skep.cli.output import Step
from skep.cli.pipeline.identity import RunIdentity, identified
from skep.cli.pipeline.options import Place
from skep.cli.pipeline.run_reporter import telling
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


_TYPED = {
    "failOnDataLoss=false": "--allow-loss",
    "payloadFormat=binary": "--payload-format binary",
}
"""Options of the source, and how they are typed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a pipeline works with."""

    spark: "SparkSession"
    source: Source
    run: RunRecord
    records: Records
    expected: int
    """How many messages lie before it, when it begins."""

    def stream(
        self,
        writer: "DataStreamWriter",
        every: float | None,
        written: Callable[[], None] = lambda: None,
    ) -> None:
        """Run a stream, and show how far it is; ``written`` is called after each batch."""
        from skep.pipelines.run import run_stream

        with self.progress(None if every else self.expected) as step:

            def tell(messages: int) -> None:
                written()
                step(messages)

            interval = None if every is None else f"{every} seconds"
            ended = run_stream(writer, self.run.checkpoint, tell, every=interval)
        if not ended:
            self.run.state = "stopped"

    @contextmanager
    def progress(self, total: int | None) -> Iterator[Step]:
        """What counts messages, on the terminal and in the record."""
        with output.progress(self.run.pipeline, total) as step:

            def tell(messages: int) -> None:
                step(messages)
                self.records.tell(self.run, messages)

            yield tell


@contextmanager
def job(
    place: Place, asked: RunIdentity, *, streams: Streams = "none", allow_loss: bool = False
) -> Iterator[Job]:
    """A job whose server is there, and whose end is recorded whatever it is."""
    from skep.spark.session import check_pyspark

    check_pyspark()
    source = Source(place.url, asked.queues, place.token, allow_loss)
    with ExitStack() as stack:
        records = Records(told=stack.enter_context(telling(place.url, place.token)))
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
        # As somebody says it who types commands.
        reason = reason_of(error)
        for option, typed in _TYPED.items():
            reason = reason.replace(option, typed)
        records.end(run, "failed", reason)
        complain(f"{run.pipeline} failed: {reason}")
        raise typer.Exit(FAILED) from None
    except (KeyboardInterrupt, typer.Exit):
        # Somebody had enough of it, or was asked and said no.
        records.end(run, "stopped")
        raise
    except BaseException as error:
        records.end(run, "failed", str(error) or type(error).__name__)
        raise
    records.end(run, "done" if run.state == "running" else run.state)


def lag_of(client: Client, run: RunRecord | PipelineRun) -> int | None:
    """How many messages lie before streams; None if the server does not know all of them."""
    with suppress(SkepError):
        paths = [journal_group(group) for group in run.groups]
        found = [client.connection.send(read(path)).decode(ReaderResponse) for path in paths]
        if found:
            return sum(each.lag for each in found) + _not_met(client, run, found)
    return None


def _not_met(client: Client, run: RunRecord | PipelineRun, found: Sequence[ReaderResponse]) -> int:
    """What is in queues that came since a run over all of them was last there."""
    met = {name for each in found for name in each.position.queues}
    return 0 if run.queues else _messages(client, lambda name: name not in met)


def _check_queues(client: Client, queues: tuple[str, ...]) -> None:
    """Say what is misspelt before Spark is started for it."""
    known = [queue.name for queue in client.queues.list()]
    for name in queues:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise typer.BadParameter(f"there is no queue {name!r}{hint}")


def _messages(client: Client, among: Callable[[str], bool]) -> int:
    summaries = client.queues.summaries()
    return sum(each.counts.total for each in summaries if among(each.queue.name))


def report_path(to: str, report: str | None) -> Path:
    """Where a page goes: it is written here, also where the rest is written elsewhere."""
    if report is not None:
        return Path(report)
    if "://" in to:
        raise typer.BadParameter("--report must be given where --to is not a directory here")
    return Path(to) / "report.html"
