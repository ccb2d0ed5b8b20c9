"""Reading views: dead letters, consumer groups, partitions, queues and latencies as tables."""

# pyarrow may be missing, see arrow.py.
from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_skep.arrow import pa
from pyspark_skep.column import VIEW_COLUMNS, SourceColumn, to_arrow
from pyspark_skep.http_client import API, HttpClient
from pyspark_skep.options import Options

JsonRow = Mapping[str, Any]
FetchRows = Callable[[HttpClient, str | None], Iterator[JsonRow]]
"""Yields the rows of one queue, or of all queues."""


def _dead_letters(client: HttpClient, queue: str | None) -> Iterator[JsonRow]:
    query: dict[str, Any] = {"limit": 1000} if queue is None else {"limit": 1000, "queue": queue}
    while True:
        page = client.request_json("GET", f"{API}/dlq?{urlencode(query)}")
        yield from page["messages"]
        if page["next"] is None:
            return
        query["before"] = page["next"]


def _consumers(client: HttpClient, queue: str | None) -> Iterator[JsonRow]:
    rows = client.request_json("GET", f"{API}/consumer-groups")
    yield from (row for row in rows if queue in (None, row["queueName"]))


def _pages(client: HttpClient, resource: str, queue: str | None) -> Iterator[JsonRow]:
    """Yield the rows of a list that has pages by offset."""
    query: dict[str, Any] = {} if queue is None else {"queue": queue}
    offset, limit = 0, 10_000
    while True:
        text = urlencode({**query, "limit": limit, "offset": offset})
        page = client.request_json("GET", f"{API}/resources/{resource}?{text}")[resource]
        yield from page
        if len(page) < limit:
            return
        offset += limit


def _partitions(client: HttpClient, queue: str | None) -> Iterator[JsonRow]:
    return _pages(client, "partitions", queue)


def _stats(client: HttpClient, queue: str | None) -> Iterator[JsonRow]:
    rows = _pages(client, "queues", None)
    yield from (row for row in rows if queue in (None, row["name"]))


def _latencies(client: HttpClient, queue: str | None) -> Iterator[JsonRow]:
    """Yield a row for each bucket of the histograms that the server keeps."""
    query: dict[str, Any] = {"from": "1970-01-01T00:00:00Z"}
    if queue is not None:
        query["queue"] = queue
    while True:
        page = client.request_json("GET", f"{API}/analytics/latencies?{urlencode(query)}")
        for row in page["series"]:
            for seconds, messages in row["buckets"]:
                yield {**row, "seconds": seconds, "messages": messages}
        if page["next"] is None:
            return
        query["from"] = page["next"]


FETCH_ROWS: dict[str, FetchRows] = {
    "dead-letters": _dead_letters,
    "consumers": _consumers,
    "partitions": _partitions,
    "stats": _stats,
    "latencies": _latencies,
}


class ViewReader(DataSourceReader):
    """Reads a view of the selected queues, or of all, as it is at the time of the read."""

    def __init__(self, options: Options, columns: Sequence[SourceColumn]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        rows: list[JsonRow] = []
        for row in self._rows():
            rows.append(row)
            if len(rows) == self._options.batch_rows:
                yield self._batch(rows)
                rows = []
        if rows:
            yield self._batch(rows)

    def _rows(self) -> Iterator[JsonRow]:
        client, fetch = HttpClient(self._options), FETCH_ROWS[self._options.view]
        for queue in self._options.queue or (None,):
            for row in fetch(client, queue):
                if self._is_selected(row):
                    yield row

    def _is_selected(self, row: JsonRow) -> bool:
        pattern, columns = self._options.queue_pattern, VIEW_COLUMNS[self._options.view]
        (path,) = (column.json_path for column in columns if column.name == "queue")
        return pattern is None or bool(re.fullmatch(pattern, row[path]))

    def _batch(self, rows: Sequence[JsonRow]) -> pa.RecordBatch:
        schema = to_arrow(self._columns)
        arrays = [
            pa.array([_value(row, column) for row in rows], type_)
            for column, type_ in zip(self._columns, schema.types, strict=True)
        ]
        return pa.record_batch(arrays, schema=schema)


def _value(row: JsonRow, column: SourceColumn) -> Any:
    if column.json_path == "data":
        return _payload(row, column.kind)
    value: Any = row
    for key in column.json_path.split("."):
        value = value[key]
    if column.kind == "timestamp" and value is not None:
        return datetime.fromisoformat(value)
    return value


def _payload(row: JsonRow, kind: str) -> str | bytes | None:
    """Return the payload, or None if the client may not read payloads.

    A JSON payload is part of the server's JSON; so it is encoded again, not kept byte for byte.
    """
    if "data" not in row:
        return None
    if row["encoding"] == "base64":
        data = b64decode(row["data"])
        return data if kind == "binary" else data.decode(errors="replace")
    text = json.dumps(row["data"], ensure_ascii=False, separators=(",", ":"))
    return text.encode() if kind == "binary" else text
