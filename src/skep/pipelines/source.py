"""Queues on a server as Spark reads and writes them."""

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVERY_QUEUE = ".*"


@dataclass(frozen=True, slots=True)
class Source:
    """Some queues of a server, or all of them if none are named."""

    url: str
    queues: tuple[str, ...] = ()
    token: str | None = field(default=None, repr=False)
    allow_loss: bool = False
    """Whether a stream goes on though messages were removed before it read them."""

    @property
    def server(self) -> dict[str, str]:
        """The options by which the server is found."""
        return {"url": self.url} | ({"token": self.token} if self.token else {})

    @property
    def _queues(self) -> dict[str, str]:
        if self.queues:
            # A name may have a comma.
            return {"queue": json.dumps(self.queues)}
        return {"queuePattern": EVERY_QUEUE}

    def only(self, queue: str) -> "Source":
        """One of them."""
        return replace(self, queues=(queue,))

    def read(self, spark: "SparkSession", schema: str | None = None, **options: str) -> "DataFrame":
        """What is there now. A schema chooses columns: the others do not leave the server."""
        reader = spark.read.format("skep").options(**self.server | self._queues | options)
        return (reader.schema(schema) if schema else reader).load()

    def view(self, spark: "SparkSession", name: str) -> "DataFrame":
        """What the server knows beside messages: ``dead-letters``, ``consumers`` and so on."""
        return self.read(spark, view=name)

    def stream(self, spark: "SparkSession", group: str, **options: str) -> "DataFrame":
        """What is there and what comes, for a group of its own."""
        asked = {"consumerGroup": group, "startingOffsets": "earliest"}
        reader = spark.readStream.format("skep").options(**self.server | self._queues | asked)
        return reader.options(failOnDataLoss=not self.allow_loss, **options).load()
