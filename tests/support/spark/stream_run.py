"""Streams that tests run, and what is seen of them."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Row = tuple[str, int, bytes]
PATIENCE = 60
"""Seconds after which a stream that has read nothing will not."""


class Run:
    """A stream that reads all there is into lists, a list for each batch."""

    def __init__(self, spark: "SparkSession", url: str, checkpoint: str, **options: Any) -> None:
        told = {"url": url, "startingOffsets": "earliest"} | options
        self._stream = spark.readStream.format("skep").options(**told)
        self._checkpoint = checkpoint
        self.batches: list[tuple[int, list[Row]]] = []
        self.fail_at = -1
        self.during: Callable[[], None] = lambda: None
        self.progress: list[Any] = []

    def __call__(self) -> "Run":
        query = self.start(availableNow=True)
        try:
            query.awaitTermination(120)
        finally:
            query.stop()
            self.progress = query.recentProgress
        return self

    def start(self, **trigger: Any) -> "StreamingQuery":
        writer = self._stream.load().writeStream.foreachBatch(self._take)
        writer = writer.option("checkpointLocation", self._checkpoint)
        return (writer.trigger(**trigger) if trigger else writer).start()

    def wait_for_some(self, query: "StreamingQuery") -> None:
        """Let it go on until it has read something, but not for ever."""
        until = time.monotonic() + PATIENCE
        while not self.sizes and time.monotonic() < until:
            query.processAllAvailable()

    def _take(self, frame: "DataFrame", number: int) -> None:
        rows = frame.select("partition", "offset", "payload").collect()
        self.batches.append((number, [(r.partition, r.offset, r.payload.encode()) for r in rows]))
        self.during()
        if number == self.fail_at:
            self.fail_at = -1
            raise RuntimeError("told to fail")

    @property
    def rows(self) -> list[Row]:
        return sorted(row for _, rows in self.batches for row in rows)

    @property
    def sizes(self) -> list[int]:
        """How many messages each batch has that has any."""
        return [len(rows) for _, rows in self.batches if rows]


def lag(url: str, group: str) -> int:
    found = httpx.get(f"{url}/api/v1/journal/groups/{group}").json()
    return int(found["lag"])
