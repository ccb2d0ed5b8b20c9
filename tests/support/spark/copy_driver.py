"""A driver of its own that copies a queue to another, each message once, until it is killed.

``python -m tests.support.spark.copy_driver`` with the fields of ``Copy`` as JSON; started by
``driver_process.py``.
"""

import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from skep.spark import session

if TYPE_CHECKING:
    import pyarrow as pa

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.minTaskRuntime": "50ms",
}
"""Spark does it on a cluster only, also on one of processes on this machine."""
BATCH = 100


class Copy(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    source: str
    target: str
    checkpoint: str
    master: str
    tasks: int

    @property
    def on_a_cluster(self) -> bool:
        return self.master.startswith("local-cluster")


def straggle(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """Some attempts are slower than others, so that Spark starts another beside them."""
    if random.random() < 0.1:
        time.sleep(0.5)
    yield from batches


def copy(asked: Copy) -> None:
    log = Path(f"{asked.checkpoint}.log")
    spark = session("copier", asked.master, log=log, **SPECULATION)
    source = spark.readStream.format("skep").options(
        url=asked.url,
        queue=asked.source,
        consumerGroup="copier",
        startingOffsets="earliest",
        maxOffsetsPerTrigger=BATCH,
        preserveOrder=True,
        minPartitions=asked.tasks,
    )
    frame = source.load().select("partition", "payload")
    if asked.on_a_cluster:
        frame = frame.mapInArrow(straggle, frame.schema)
    writer = frame.writeStream.format("skep").options(url=asked.url, queue=asked.target)
    writer.option("checkpointLocation", asked.checkpoint).start().awaitTermination()


if __name__ == "__main__":
    copy(msgspec.json.decode(sys.argv[1], type=Copy))
