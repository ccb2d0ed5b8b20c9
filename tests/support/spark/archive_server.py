"""A server for tests of archives, and what is in its queues and in an archive."""

from collections.abc import Iterator
from contextlib import contextmanager

from anyio.from_thread import BlockingPortal, start_blocking_portal
from pyspark.sql import SparkSession

import skep
from skep import Broker, Client, Draft
from skep.pipelines.archive import read_archive
from skep.testing.clock import ManualClock
from tests.spark.conftest import messages_in
from tests.support.in_process_server import serving

HOUR = 3600


class Scene:
    """A server whose clock and whose sweeps are in the hands of the test."""

    def __init__(
        self, portal: BlockingPortal, broker: Broker, clock: ManualClock, url: str, client: Client
    ) -> None:
        self._portal = portal
        self._broker = broker
        self._clock = clock
        self.url = url
        self.client = client

    @contextmanager
    def other_url(self) -> Iterator[str]:
        """Another server of the same store."""
        with self._portal.wrap_async_context_manager(serving(self._broker)) as url:
            yield url

    def push(self, texts: str, queue: str = "orders") -> None:
        """A message for each letter, each by itself, in two partitions."""
        for number, text in enumerate(texts):
            self.client.push(queue, [Draft(text.encode(), f"p{number % 2}")])

    def done(self, group: str, partition: str, queue: str = "orders") -> None:
        """Let a group do what a partition has."""
        delivery = self.client.pop(queue, partition=partition, group=group, batch=100)
        assert delivery is not None
        self.client.ack(delivery)

    def advance(self, seconds: float) -> None:
        self._portal.call(self._clock.advance, seconds)

    def sweep(self) -> int:
        return self._portal.call(self._broker.sweep)

    def kept(self, queue: str = "orders") -> str:
        found = messages_in(self.client, queue)
        return "".join(sorted(message.payload.decode() for message in found))


@contextmanager
def open_scene() -> Iterator[Scene]:
    clock = ManualClock()
    opened = skep.open("memory://", clock=clock, sweep_interval=None)
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(opened) as broker,
        portal.wrap_async_context_manager(serving(broker)) as url,
        Client(url) as client,
    ):
        yield Scene(portal, broker, clock, url, client)


def archived(spark: SparkSession, to: str) -> str:
    """The messages of an archive, a letter for each."""
    return "".join(sorted(bytes(row.payload).decode() for row in read_archive(spark, to).collect()))
