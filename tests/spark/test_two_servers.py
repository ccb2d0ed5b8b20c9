"""Two servers on one database: whichever answers, a stream reads and writes as with one."""

import os
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from skep import Client, Draft
from tests.spark.conftest import messages_in
from tests.support.postgres_databases import databases
from tests.support.server_process import ServerProcess
from tests.support.spark.load_balancer import balancer

pytestmark = pytest.mark.xdist_group("spark")

PUSHES = int(os.environ.get("SKEP_PUSHES", "400"))
PARTITIONS = 9
PATIENCE = 300


@pytest.fixture
def servers() -> Iterator[list[str]]:
    store = databases().empty()
    with ServerProcess(store) as one, ServerProcess(store) as two:
        with Client(one.url) as client:
            for name in ("source", "target"):
                client.queues.configure(name)
        yield [one.url, two.url]


class Differences(NamedTuple):
    inversions: int
    missing: int
    duplicates: int


def differences(copied: dict[str, list[int]], pushed: dict[str, list[int]]) -> Differences:
    """How a copy of numbers that rise in each partition differs from them."""
    counts = Counter((name, n) for name, some in copied.items() for n in some)
    wanted = Counter((name, n) for name, some in pushed.items() for n in some)
    return Differences(
        inversions=sum(
            after < before for some in copied.values() for before, after in pairwise(some)
        ),
        missing=(wanted - counts).total(),
        duplicates=(counts - wanted).total(),
    )


def produce(urls: Sequence[str], pushed: dict[str, list[int]]) -> None:
    """Push numbers, one by one and a few at a time, now by one server and now by another.

    More and more partitions are used, so that each server meets some that the other has made.
    """
    random, clients = Random(1), [Client(url) for url in urls]
    number = 0
    for turn in range(PUSHES):
        name = f"p{random.randint(0, turn * PARTITIONS // PUSHES)}"
        some = range(number, number + random.choice((1, 1, 2, 5)))
        clients[turn % len(clients)].push("source", [Draft(b"%d" % n, name) for n in some])
        pushed.setdefault(name, []).extend(some)
        number = some.stop
    for client in clients:
        client.close()


def numbers_in(url: str, queue: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    with Client(url) as client:
        for message in messages_in(client, queue):
            found.setdefault(message.partition, []).append(int(message.payload))
    return found


@pytest.mark.parametrize("limit", [40, None])
def test_a_stream_copies_all_once_and_in_order_whichever_server_answers(
    spark: SparkSession, servers: list[str], tmp_path: Path, limit: int | None
) -> None:
    pushed: dict[str, list[int]] = {}
    producer = threading.Thread(target=produce, args=(servers, pushed))
    with balancer(servers) as url:
        asked = {"queue": "source", "startingOffsets": "earliest", "preserveOrder": "true"}
        asked |= {} if limit is None else {"maxOffsetsPerTrigger": str(limit)}
        source = spark.readStream.format("skep").options(url=url, minPartitions=2, **asked)
        writer = source.load().select("partition", "payload").writeStream.format("skep")
        writer = writer.options(url=url, queue="target", checkpointLocation=str(tmp_path / "c"))
        producer.start()
        query = writer.start()
        try:
            producer.join(PATIENCE)
            query.processAllAvailable()
        finally:
            query.stop()

    found = differences(numbers_in(servers[0], "target"), pushed)
    assert found == Differences(inversions=0, missing=0, duplicates=0)


def test_a_batch_has_what_the_other_server_took_a_moment_ago(
    spark: SparkSession, servers: list[str]
) -> None:
    for n in range(5):
        with Client(servers[n % 2]) as client:
            client.push(f"new-{n}", [Draft(b"%d" % n, f"p{k}") for k in range(3)])

        other = servers[(n + 1) % 2]
        frame = spark.read.format("skep").options(url=other, queue=f"new-{n}").load()

        assert sorted(row.partition for row in frame.collect()) == ["p0", "p1", "p2"]
