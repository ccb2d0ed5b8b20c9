"""Reading a queue as a stream: where each micro-batch starts and ends."""

# pyarrow may be missing, see arrow.py; so may ReadLimit in an older Spark.
from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from pyspark_skep.arrow import pa
from pyspark_skep.column import SourceColumn
from pyspark_skep.errors import RequestRejected
from pyspark_skep.http_client import JOURNAL, TIMEOUT, HttpClient, path_segment
from pyspark_skep.options import Options
from pyspark_skep.plan import plan_splits
from pyspark_skep.position import (
    JournalPosition,
    check_position,
    clamp,
    rows_between,
    slices_between,
    without_mismatches,
)
from pyspark_skep.reader import read_split

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
else:
    # Spark 4.0 and 4.1 have no limits: there a micro-batch reads everything that is new.
    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadMaxBytes,
            ReadMaxRows,
            ReadMinRows,
            SupportsTriggerAvailableNow,
        )
    except ImportError:
        SupportsTriggerAvailableNow = object

log = logging.getLogger("pyspark_skep")


class PositionReporter:
    """Reports a reader group's position to the server, in the background, the newest only.

    The checkpoint is authoritative: the report is for monitoring and for retention.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._path = f"{JOURNAL}/groups/{path_segment(options.group)}/position"
        self._changed = threading.Condition()
        self._pending: JournalPosition | None = None
        self._busy = False
        threading.Thread(target=self._run, daemon=True).start()

    def report(self, position: JournalPosition) -> None:
        with self._changed:
            self._pending = position
            self._changed.notify_all()

    def flush(self, seconds: float = 5.0) -> None:
        """Wait until the last position is reported, at most this long."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending is None and not self._busy, seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending is not None)
                position, self._pending, self._busy = self._pending, None, True
            try:
                # Sent also without commitCursor: the server then drops the pinned start.
                body = {"position": position, "stay": not self._options.commit_cursor}
                HttpClient(self._options).request_json("POST", self._path, body)
            except Exception as error:
                log.warning(
                    "could not report a position: group=%r error=%s", self._options.group, error
                )
            with self._changed:
                self._busy = False
                self._changed.notify_all()


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The driver's side of a stream. Tasks have a copy, of which only ``read`` is used."""

    def __init__(self, options: Options, columns: Sequence[SourceColumn]) -> None:
        self._options = options
        self._columns = columns
        self._initial: JournalPosition | None = None
        self._heads: JournalPosition | None = None
        self._target: JournalPosition | None = None
        self._reported: JournalPosition | None = None
        self._reporter: PositionReporter | None = None
        self._last_batch = time.monotonic()

    def initialOffset(self) -> JournalPosition:  # noqa: N802 - Spark's names, here and below
        """Return the start of the stream, the same at every call.

        Spark calls this several times, also after a crash, and loses messages if the result
        changes. So the server decides it once and keeps it until the stream has moved on.
        """
        if self._initial is None:
            path = f"{JOURNAL}/groups/{path_segment(self._options.group)}"
            body = {**self._options.selection, "start": self._start()}
            answer = HttpClient(self._options).request_json("PUT", path, body)
            self._initial = check_position(answer["position"])
        return self._initial

    def _start(self) -> str | JournalPosition:
        options = self._options
        if options.starting_timestamp is None:
            return options.starting_offsets or "latest"
        strategy = options.starting_offsets_by_timestamp_strategy
        return {"at": options.starting_timestamp, "otherwise": strategy}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return a limit that Spark passes back when the options apply.

        Its number is not used: ``latestOffset`` sends all limits of the options to the server.
        """
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = check_position(self._fetch_heads(None, limited=False)["heads"])

    def latestOffset(  # noqa: N802
        self, start: JournalPosition | None = None, limit: ReadLimit | None = None
    ) -> JournalPosition:
        """Return the end of the next batch, or ``start`` if there is no batch yet.

        Spark 4.0 and 4.1 pass neither a start nor a limit.
        """
        if start is None:
            return check_position(self._fetch_heads(None, limited=False)["heads"])
        self._report(start)
        limited = limit is not None and type(limit).__name__ != "ReadAllAvailable"
        answer = self._fetch_heads(start, limited=limited)
        self._heads = check_position(answer["heads"])
        end = check_position(answer["end"])
        if self._target is not None:
            end = check_position(clamp(end, start=start, target=self._target))
        elif limited and not self._has_enough_rows(start):
            return start
        if not rows_between(start, end):
            if self._target is not None and self._reporter is not None:
                # The stream ends now, and possibly the process.
                self._reporter.flush()
            return start
        self._last_batch = time.monotonic()
        return end

    def reportLatestOffset(self) -> JournalPosition | None:  # noqa: N802
        return self._heads

    def _fetch_heads(self, start: JournalPosition | None, *, limited: bool) -> dict[str, Any]:
        options = self._options
        # The first batch should be in the checkpoint soon, and availableNow never waits.
        immediate = start is None or self._heads is None or self._target is not None
        body = {
            **options.selection,
            "after": start,
            "wait": 0 if immediate else options.poll_timeout,
            "maxRows": options.max_offsets_per_trigger if limited else None,
            "maxBytes": options.max_bytes_per_trigger if limited else None,
        }
        try:
            return self._request_heads(body)
        except RequestRejected as error:
            if start is None or options.fail_on_data_loss or not error.is_mismatch:
                raise
            log.warning("position mismatch, reading queues from their beginning: error=%s", error)
            heads = self._request_heads({**body, "after": None, "wait": 0})["heads"]
            after = without_mismatches(start, heads)
            return self._request_heads({**body, "after": after, "wait": 0})

    def _request_heads(self, body: dict[str, Any]) -> dict[str, Any]:
        timeout = TIMEOUT + body["wait"] / 1000
        answer: dict[str, Any] = HttpClient(self._options).request_json(
            "POST", f"{JOURNAL}/heads", body, timeout=timeout
        )
        return answer

    def _has_enough_rows(self, start: JournalPosition) -> bool:
        """Whether minOffsetsPerTrigger is reached, or maxTriggerDelay is over."""
        minimum = self._options.min_offsets_per_trigger
        if minimum is None or self._heads is None or rows_between(start, self._heads) >= minimum:
            return True
        left = self._options.max_trigger_delay / 1000 - (time.monotonic() - self._last_batch)
        if left > 0:
            # The server has new messages, so its long poll returned at once.
            time.sleep(min(left, self._options.poll_timeout / 1000))
        return left <= 0

    def _report(self, position: JournalPosition) -> None:
        """Report a position that is in the checkpoint: the start of a batch, or a committed end."""
        if position in (self._initial, self._reported):
            return
        self._reported = position
        self._reporter = self._reporter or PositionReporter(self._options)
        self._reporter.report(position)

    def commit(self, end: JournalPosition) -> None:
        self._report(end)

    def partitions(self, start: JournalPosition, end: JournalPosition) -> Sequence[InputPartition]:
        strict = self._options.fail_on_data_loss
        return plan_splits(slices_between(start, end, strict=strict), self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_split(self._options, self._columns, partition)
