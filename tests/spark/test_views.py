"""Views of the server as tables: partitions, queues, groups, dead letters and latencies."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from skep import Client
from tests.spark.conftest import Push

pytestmark = pytest.mark.xdist_group("spark")

View = Callable[..., DataFrame]


@pytest.fixture
def view(spark: SparkSession, url: str, queue: str) -> View:
    def view(name: str, **options: Any) -> DataFrame:
        reader = spark.read.format("skep").options(url=url, view=name, **{"queue": queue} | options)
        return reader.load()

    return view


def test_partitions_are_rows(view: View, push: Push) -> None:
    push(30, 3)

    rows = view("partitions").collect()

    assert {(row.partition, row.total) for row in rows} == {("p0", 10), ("p1", 10), ("p2", 10)}
    assert all(row.newest_at is not None for row in rows)


def test_queues_are_rows(view: View, push: Push, queue: str) -> None:
    push(30, 3)

    (row,) = view("stats").collect()

    assert (row.queue, row.partitions, row.total) == (queue, 3, 30)
    assert view("stats", queue=None, queuePattern=f"{queue}.*").count() == 1
    assert view("stats", queue=None).count() >= 1


def test_groups_are_rows(view: View, push: Push, client: Client, queue: str) -> None:
    push(30, 3)
    client.pop(queue, group="readers")

    (row,) = view("consumers").collect()

    assert (row.consumer_group, row.queue, row.lag) == ("readers", queue, 30)


def test_dead_letters_are_rows_with_their_payloads(
    view: View, push: Push, client: Client, queue: str
) -> None:
    client.queues.configure(queue, retry_limit=0)
    push(1)
    lease = client.pop(queue, group="readers")
    assert lease is not None
    client.fail(lease, error="no use")

    (row,) = view("dead-letters").collect()

    assert (row.consumer_group, row.error, row.partition) == ("readers", "no use", "p0")
    assert row.payload == '{"n":0,"text":"ä"}'
    assert row.failed_at is not None


def test_latencies_are_rows_that_can_be_added(
    view: View, push: Push, client: Client, queue: str
) -> None:
    push(30, 3)
    for messages in (10, 5):
        lease = client.pop(queue, group="readers", batch=messages)
        assert lease is not None
        client.ack(lease)

    rows = view("latencies").collect()

    assert {(row.queue, row.consumer_group) for row in rows} == {(queue, "readers")}
    assert sum(row.messages for row in rows) == 15
    assert all(0 < row.seconds < 3600 and row.begins_at is not None for row in rows)
    assert view("latencies", queue=None, queuePattern=f"{queue}.*").count() == len(rows)


def test_a_view_takes_a_schema_too(spark: SparkSession, url: str, queue: str, push: Push) -> None:
    push(3)
    reader = spark.read.format("skep").options(url=url, queue=queue, view="stats")

    assert reader.schema("total bigint, queue string").load().collect() == [(3, queue)]
