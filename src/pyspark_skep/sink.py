"""Writing to queues: tasks stage rows that stay invisible until the driver commits them."""

# pyarrow may be missing, see arrow.py.
from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode
from uuid import uuid4

from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, StringType, StructType

from pyspark_skep.arrow import pa
from pyspark_skep.errors import InvalidColumns, InvalidOption
from pyspark_skep.http_client import API, JOURNAL, HttpClient
from pyspark_skep.options import TABLE_HINT, Options, to_camel

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:
    # Spark 4.0 does not have it, and cannot write streams.
    DataSourceStreamArrowWriter = getattr(datasource, "DataSourceStreamArrowWriter", object)

log = logging.getLogger("pyspark_skep")

ARROW = "application/vnd.apache.arrow.stream"
COMMIT_TIMEOUT = 600.0
"""One request publishes the rows of thousands of tasks."""
CHUNK_BYTES = 4_000_000
PUSH_ROWS = 1000

WRITTEN = ("payload", "queue", "partition", "transaction_id", "trace_id")
IGNORED = {"offset", "message_id", "producer", "created_at", "lane", "position"}
"""Columns that only a read has; ignored, so that a DataFrame of messages can be written."""


@dataclass(frozen=True)
class StagedTask(WriterCommitMessage):
    """What one task has staged: all that the driver knows when it commits."""

    app: str = ""
    version: int | None = None
    stage: str = ""
    chunks: int = 0
    rows: int = 0
    checkpoint: str | None = None


def check_columns(options: Options, schema: StructType) -> None:
    """Raise ``InvalidColumns`` or ``InvalidOption`` if a DataFrame cannot be written."""
    types = {_written_name(options, column.name): column.dataType for column in schema.fields}
    unknown = sorted(set(types) - set(WRITTEN) - IGNORED)
    if unknown:
        raise InvalidColumns(
            f"messages have no column {', '.join(unknown)}: put all values into the column "
            "payload, for example with to_json(struct(...))"
        )
    if "payload" not in types:
        raise InvalidColumns("a column payload is required")
    if not isinstance(types["payload"], StringType | BinaryType):
        type_ = types["payload"].simpleString()
        raise InvalidColumns(f"payload must be a string or binary, not {type_}: use to_json")
    for name in WRITTEN[1:]:
        if name in types and not isinstance(types[name], StringType):
            raise InvalidColumns(f"{name} must be a string, not {types[name].simpleString()}")
    if options.queue is None and "queue" not in types:
        raise InvalidOption("queue", f"is required, or a column queue{TABLE_HINT}")
    if options.guarantee == "idempotent" and "transaction_id" not in types:
        raise InvalidColumns("guarantee=idempotent requires a column transaction_id")


def _written_name(options: Options, name: str) -> str:
    """Return the name under which a column is written: transactionId may name another column."""
    return "transaction_id" if name == options.transaction_id else name


def to_messages(options: Options, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns to write; a queue or partition in the options overrides a column."""
    columns = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        written = _written_name(options, name)
        if written in WRITTEN and not (written == "queue" and options.queue):
            is_binary = pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)
            columns[written] = column.cast(pa.binary() if is_binary else pa.string())
    if options.partition is not None:
        columns["partition"] = pa.repeat(pa.scalar(options.partition), batch.num_rows)
    return pa.RecordBatch.from_pydict(columns)


def chunks_of(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[list[pa.RecordBatch]]:
    """Split and group batches into chunks of at most ``size`` bytes, or of one larger row."""
    chunk: list[pa.RecordBatch] = []
    chunk_bytes = 0
    for batch in batches:
        for part in _split(batch, size):
            if chunk and chunk_bytes + part.nbytes > size:
                yield chunk
                chunk, chunk_bytes = [], 0
            chunk.append(part)
            chunk_bytes += part.nbytes
    if chunk:
        yield chunk


def _split(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    """Halve a batch until its parts fit, because one payload may be larger than all others."""
    if batch.nbytes <= size or batch.num_rows <= 1:
        if batch.num_rows:
            yield batch
        return
    middle = batch.num_rows // 2
    yield from _split(batch.slice(0, middle), size)
    yield from _split(batch.slice(middle), size)


def to_ipc_stream(batches: Sequence[pa.RecordBatch]) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(out.getvalue())


class QueueWriter:
    """Writes, commits and aborts, for batches and streams alike."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def write(self, batches: Iterator[pa.RecordBatch], app: str, version: int | None) -> StagedTask:
        messages = (to_messages(self._options, batch) for batch in batches)
        if self._options.guarantee != "exactly-once":
            return self._push(messages)
        # A new stage for each attempt: two attempts never mix, not even after a restart.
        stage, chunks, rows = uuid4().hex, 0, 0
        for chunk in chunks_of(messages, CHUNK_BYTES):
            self._stage(app, version, stage, chunks, to_ipc_stream(chunk))
            chunks += 1
            rows += sum(batch.num_rows for batch in chunk)
        return StagedTask(app, version, stage, chunks, rows)

    def _stage(self, app: str, version: int | None, stage: str, chunk: int, data: bytes) -> None:
        query: dict[str, Any] = {"app": app, "stage": stage, "chunk": chunk}
        if version is not None:
            query["version"] = version
        if self._options.queue is not None:
            query["queue"] = self._options.queue[0]
        path = f"{JOURNAL}/stage?{urlencode(query)}"
        HttpClient(self._options).request("POST", path, data, ARROW)

    def _push(self, batches: Iterable[pa.RecordBatch]) -> StagedTask:
        """Push rows as they come; they are visible at once, and again if the task is retried."""
        client, rows = HttpClient(self._options), 0
        for chunk in chunks_of(batches, CHUNK_BYTES // 2):
            for batch in chunk:
                for start in range(0, batch.num_rows, PUSH_ROWS):
                    items = [self._item(row) for row in batch.slice(start, PUSH_ROWS).to_pylist()]
                    client.request_json("POST", f"{API}/push", {"items": items})
                    rows += len(items)
        return StagedTask(rows=rows)

    def _item(self, row: Mapping[str, Any]) -> dict[str, Any]:
        if self._options.guarantee == "idempotent" and row["transaction_id"] is None:
            raise InvalidColumns("guarantee=idempotent requires a transaction_id in every row")
        if row["payload"] is None:
            raise InvalidColumns("payload must not be null")
        payload = row["payload"]
        data = payload.encode() if isinstance(payload, str) else payload
        # Base64 keeps the payload byte for byte, whether or not it is JSON.
        item = {"payload": b64encode(data).decode(), "encoding": "base64"}
        if self._options.queue is not None:
            item["queue"] = self._options.queue[0]
        rest = {to_camel(name): row[name] for name in WRITTEN[1:] if row.get(name) is not None}
        return item | rest

    def commit(self, messages: Iterable[WriterCommitMessage | None]) -> None:
        body = _to_commit(messages)
        if body is None:
            return
        answer = HttpClient(self._options).request_json(
            "POST", f"{JOURNAL}/commit", body, timeout=COMMIT_TIMEOUT
        )
        if answer["duplicate"]:
            log.info("already committed: app=%r version=%s", body["app"], body["version"])

    def abort(self, messages: Iterable[WriterCommitMessage | None]) -> None:
        """Drop what is staged. A commit that succeeded stays: Spark may not have noticed it."""
        body = _to_commit(messages)
        if body is None:
            return
        try:
            HttpClient(self._options).request_json("POST", f"{JOURNAL}/abort", body)
        except Exception as error:
            # The server drops the rows later; this must not hide the error that Spark aborts for.
            log.warning("could not drop staged rows: app=%r error=%s", body["app"], error)


def _to_commit(messages: Iterable[WriterCommitMessage | None]) -> dict[str, Any] | None:
    """Return the stages of the tasks that finished, or None if they staged nothing."""
    finished = [cast(StagedTask, message) for message in messages if message is not None]
    staged = [task for task in finished if task.chunks]
    if not staged:
        return None
    return {
        "app": staged[0].app,
        "version": staged[0].version,
        "checkpoint": staged[0].checkpoint,
        "stages": [
            {"stage": task.stage, "chunks": task.chunks, "rows": task.rows} for task in staged
        ],
    }


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: Options) -> None:
        self._writer = QueueWriter(options)
        self._app = options.txn_app_id or uuid4().hex
        self._version = options.txn_version

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._writer.write(iterator, self._app, self._version)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._writer.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._writer.abort(messages)


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: Options) -> None:
        self._options = options
        self._writer = QueueWriter(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of a task, for the query and epoch that its context names."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty("sql.streaming.queryId")
        epoch = context.getLocalProperty("streaming.sql.batchId")
        if query is None or epoch is None:
            raise RuntimeError("this task does not belong to a streaming query")
        staged = self._writer.write(iterator, self._options.txn_app_id or query, int(epoch))
        checkpoint = f"{query} {self._options.checkpoint_location or ''}"
        return replace(staged, checkpoint=sha256(checkpoint.encode()).hexdigest())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._writer.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._writer.abort(messages)
