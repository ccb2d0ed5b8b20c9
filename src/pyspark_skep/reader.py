"""Reading messages: what a task does, and how a batch is planned."""

# pyarrow may be missing, see arrow.py.
from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, cast

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_skep.arrow import pa
from pyspark_skep.column import SourceColumn, to_arrow
from pyspark_skep.errors import DataLost, Interrupted, InvalidOption, RequestRejected
from pyspark_skep.http_client import ATTEMPTS, JOURNAL, HttpClient, path_segment, retry_delay
from pyspark_skep.options import Options
from pyspark_skep.plan import Split, plan_splits
from pyspark_skep.position import JournalPosition, check_position, rows_between, slices_between

log = logging.getLogger("pyspark_skep")

LaneRange = tuple[int, int, int]
"""Messages of a lane: ``(lane, start, end)``, without the one at ``end``."""


def remaining(ranges: Sequence[LaneRange], progress: Mapping[str, int]) -> list[LaneRange]:
    """Return what is left of the ranges, one per lane, after the server's progress by lane."""
    reached = {int(lane): position for lane, position in progress.items()}
    requested = {lane: (start, end) for lane, start, end in ranges}
    for lane, position in reached.items():
        start, end = requested.get(lane, (0, -1))
        if not start <= position <= end:
            raise Interrupted(
                f"the server sent position {position} of lane {lane}, which was not requested"
            )
    moved = [(lane, reached.get(lane, start), end) for lane, start, end in ranges]
    return [(lane, start, end) for lane, start, end in moved if start < end]


class QueueReader:
    """Reads ranges of one queue as record batches, and resumes after a lost connection."""

    def __init__(
        self,
        options: Options,
        columns: Sequence[SourceColumn],
        *,
        queue: str,
        number: int,
        share: tuple[int, int] | None,
    ) -> None:
        self._options = options
        self._schema = to_arrow(columns)
        self._queue = queue
        self._left: Sequence[LaneRange] = ()
        self._missing = 0
        self._body = {
            "queue": queue,
            "number": number,
            "columns": [column.name for column in columns],
            "partitions": None if options.partitions is None else list(options.partitions),
            "prefix": options.partition_prefix,
            "share": None if share is None else list(share),
            "inOrder": options.preserve_order,
            "batchRows": options.batch_rows,
            "payload": options.payload_format,
        }

    def batches(self, ranges: Sequence[LaneRange]) -> Iterator[pa.RecordBatch]:
        failures = 0
        self._left = ranges
        while self._left:
            before = self._left
            try:
                yield from self._attempt()
            except Interrupted as error:
                failures = failures + 1 if self._left == before else 1
                if failures == ATTEMPTS:
                    raise
                log.warning("read interrupted, resuming: queue=%r error=%s", self._queue, error)
                time.sleep(retry_delay(failures, error.retry_after))
        if self._missing:
            log.warning(
                "skipped removed messages: queue=%r messages=%d", self._queue, self._missing
            )

    def _attempt(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch, progress in self._stream(self._left):
                # Recorded before the batch is yielded: from then on it must not be read again.
                self._left = remaining(self._left, progress["lanes"])
                self._count_missing(progress.get("missing") or ())
                if batch.num_rows:
                    yield conform(batch, self._schema)
        except RequestRejected as error:
            if self._options.fail_on_data_loss or not error.is_missing:
                raise
            log.warning("skipped a missing queue: queue=%r error=%s", self._queue, error)
            self._left = ()
        if self._left:
            raise Interrupted(f"the response ended before all of queue {self._queue!r} was read")

    def _stream(
        self, ranges: Sequence[LaneRange]
    ) -> Iterator[tuple[pa.RecordBatch, dict[str, Any]]]:
        body = json.dumps({**self._body, "ranges": [list(range_) for range_ in ranges]}).encode()
        client = HttpClient(self._options)
        with client.stream("POST", f"{JOURNAL}/read", body, "application/json") as response:
            reader = pa.ipc.open_stream(response)
            while True:
                try:
                    received = reader.read_next_batch_with_custom_metadata()
                except StopIteration:
                    break
                progress = json.loads(received.custom_metadata[b"skep"])
                if "error" in progress:
                    raise _to_error(progress)
                yield received.batch, progress

    def _count_missing(self, missing: Iterable[Sequence[int]]) -> None:
        for lane, start, end in missing:
            if self._options.fail_on_data_loss:
                raise DataLost(
                    f"messages {start} to {end - 1} of lane {lane} of queue {self._queue!r} were "
                    "removed before they were read. Keep messages longer or read more often; with "
                    "failOnDataLoss=false they are skipped"
                )
            self._missing += end - start


def _to_error(progress: Mapping[str, Any]) -> Exception:
    """Return the error that the server sent inside a response."""
    if progress.get("again", True):
        return Interrupted(progress["error"])
    return RequestRejected(progress["status"], "", progress["error"])


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with exactly the types of the schema."""
    return batch if batch.schema.equals(schema) else batch.cast(schema)


def read_split(
    options: Options, columns: Sequence[SourceColumn], partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a task. For an empty plan Spark passes a partition of its own."""
    # Not isinstance: the class exists twice where this package was pickled by value.
    if not hasattr(partition, "slices"):
        return
    split = cast(Split, partition)
    for (queue, number), slices in groupby(split.slices, lambda part: (part.queue, part.number)):
        reader = QueueReader(options, columns, queue=queue, number=number, share=split.share)
        yield from reader.batches([(part.lane, part.start, part.end) for part in slices])


class BatchReader(DataSourceReader):
    """Reads what is between two positions, fixed when Spark plans the DataFrame."""

    def __init__(self, options: Options, columns: Sequence[SourceColumn]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        heads = self._fetch_heads(options.starting_timestamp)
        start, end = self._start(heads), self._end(heads)
        return plan_splits(slices_between(start, end, strict=options.fail_on_data_loss), options)

    def _fetch_heads(self, timestamp: int | None) -> Mapping[str, Any]:
        """Return the first and last positions of the queues, and the position at a time."""
        body = {**self._options.selection, "at": timestamp}
        heads: Mapping[str, Any] = HttpClient(self._options).request_json(
            "POST", f"{JOURNAL}/heads", body
        )
        return heads

    def _start(self, heads: Mapping[str, Any]) -> JournalPosition:
        options = self._options
        if options.starting_timestamp is not None:
            return self._start_at_timestamp(heads)
        start = self._resolve(heads, options.starting_offsets or "earliest")
        first = check_position(heads["first"])
        # Queues that a given position does not contain are read from their first kept message.
        return {**start, "queues": {**first["queues"], **start["queues"]}}

    def _end(self, heads: Mapping[str, Any]) -> JournalPosition:
        options = self._options
        if options.ending_timestamp is not None:
            return check_position(self._fetch_heads(options.ending_timestamp)["at"])
        return self._resolve(heads, options.ending_offsets or "latest")

    def _resolve(self, heads: Mapping[str, Any], offsets: str | JournalPosition) -> JournalPosition:
        if isinstance(offsets, dict):
            return offsets
        if offsets == "group":
            return self._group_position()
        return check_position(heads["first" if offsets == "earliest" else "heads"])

    def _group_position(self) -> JournalPosition:
        group = self._options.group
        path = f"{JOURNAL}/groups/{path_segment(group)}"
        try:
            answer = HttpClient(self._options).request_json("GET", path)
        except RequestRejected as error:
            if error.status != 404:
                raise
            # Reading everything instead would be wrong for a misspelt name, or a group that pops.
            raise InvalidOption(
                "consumerGroup",
                f"must name a reader group, and {group!r} is not one: no stream has read under "
                "this name. A group that pops has a cursor in each partition instead",
            ) from None
        return check_position(answer["position"])

    def _start_at_timestamp(self, heads: Mapping[str, Any]) -> JournalPosition:
        start, end = check_position(heads["at"]), check_position(heads["heads"])
        strategy = self._options.starting_offsets_by_timestamp_strategy
        if strategy == "error" and not rows_between(start, end):
            raise InvalidOption(
                "startingTimestamp",
                "is later than all messages; to start at the end, set "
                "startingOffsetsByTimestampStrategy=latest",
            )
        return start

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_split(self._options, self._columns, partition)
