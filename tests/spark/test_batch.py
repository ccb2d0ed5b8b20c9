"""Reading a queue as a table."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import spark_partition_id

from skep import Client, Draft
from tests.spark.conftest import Push

pytestmark = pytest.mark.xdist_group("spark")

Load = Callable[..., DataFrame]


@pytest.fixture
def load(spark: SparkSession, url: str, queue: str) -> Load:
    def load(schema: str | None = None, **options: Any) -> DataFrame:
        reader = spark.read.format("skep").option("url", url).options(**{"queue": queue} | options)
        return (reader.schema(schema) if schema else reader).load()

    return load


def test_every_message_arrives_byte_for_byte(load: Load, push: Push, queue: str) -> None:
    pushed = push(5000, 300)

    rows = load(minPartitions=4).collect()

    assert sorted((row.partition, row.offset, row.payload.encode()) for row in rows) == sorted(
        pushed
    )
    assert {row.queue for row in rows} == {queue}
    assert len({row.message_id for row in rows}) == 5000
    assert all(row.created_at is not None for row in rows)


def test_what_is_no_text_is_read_as_bytes(load: Load, client: Client, queue: str) -> None:
    payloads = [bytes(range(256)), b"", b"\xff"]
    client.push(queue, [Draft(payload) for payload in payloads])

    rows = load(payloadFormat="binary").orderBy("offset").collect()

    assert [bytes(row.payload) for row in rows] == payloads


def test_a_schema_chooses_the_columns(load: Load, push: Push) -> None:
    push(10)

    frame = load("offset bigint, partition string, position bigint, lane int")

    assert frame.columns == ["offset", "partition", "position", "lane"]
    assert sorted(row.offset for row in frame.collect()) == list(range(10))
    assert sorted(row.position for row in frame.collect()) == list(range(10))


def test_a_column_that_must_not_be_null_keeps_its_type(load: Load, push: Push) -> None:
    push(3)

    frame = load("offset bigint not null, payload string not null")

    assert [row.offset for row in frame.orderBy("offset").collect()] == [0, 1, 2]


def test_a_filter_does_not_stay_with_the_frame(load: Load, push: Push) -> None:
    push(40, 4)
    frame = load()

    assert frame.filter("partition = 'p1'").count() == 10
    assert frame.count() == 40
    assert frame.filter("partition = 'p1'").union(frame).count() == 50


def test_a_frame_is_what_was_there_when_it_was_planned(load: Load, push: Push) -> None:
    push(5)
    frame = load()

    assert frame.count() == 5
    push(5)
    assert frame.count() == 5
    assert load().count() == 10


def test_a_queue_without_messages_has_no_rows(load: Load, client: Client, queue: str) -> None:
    client.queues.configure(queue)

    assert load().collect() == []
    assert load().count() == 0


def test_partitions_are_chosen_at_the_server(load: Load, push: Push) -> None:
    push(30, 15)

    assert load(partitions="p1,p2").count() == 4
    assert load(partitionPrefix="p1").count() == 12


def test_in_order_a_partition_is_read_by_one_task(load: Load, push: Push) -> None:
    push(2000, 40)
    frame = load(preserveOrder=True, minPartitions=4)

    rows = frame.withColumn("task", spark_partition_id()).collect()

    assert len(rows) == 2000
    assert len({row.task for row in rows}) == 4
    assert len({(row.partition, row.task) for row in rows}) == 40
    for name in {row.partition for row in rows}:
        assert [row.offset for row in rows if row.partition == name] == list(range(50))


def test_tasks_are_cut_to_a_number_of_messages(load: Load, push: Push) -> None:
    push(100)

    frame = load(maxRecordsPerPartition=10)

    assert frame.rdd.getNumPartitions() == 10
    assert frame.count() == 100


def test_positions_say_from_where_to_where(load: Load, push: Push, url: str, queue: str) -> None:
    push(10)
    place = position(url, queue)
    push(7)

    assert load(startingOffsets=place).count() == 7
    assert load(endingOffsets=place).count() == 10
    assert load(startingOffsets="latest").count() == 0


def test_a_group_says_from_where_to_where(load: Load, push: Push, url: str, queue: str) -> None:
    push(10)
    told = {"queues": [queue], "start": "latest"}
    httpx.put(f"{url}/api/v1/journal/groups/{queue}", json=told).raise_for_status()
    push(7)

    assert load(startingOffsets="group", consumerGroup=queue).count() == 7
    assert load(endingOffsets="group", consumerGroup=queue).count() == 10


def test_a_group_without_a_place_is_refused_whether_it_pops_or_is_not_there(
    load: Load, push: Push, client: Client, queue: str
) -> None:
    push(10)
    client.pop(queue, group=f"{queue}-pops")

    for group in (f"{queue}-pops", f"{queue}-nobody"):
        with pytest.raises(PySparkException, match=f"consumerGroup.*{group}"):
            load(startingOffsets="group", consumerGroup=group).count()


def test_times_say_from_when_to_when(load: Load, push: Push, client: Client, queue: str) -> None:
    push(10)
    first = max(row.created_at for row in load().collect())
    while push(1)[0][1] and max(row.created_at for row in load().collect()) == first:
        pass
    moments = sorted(row.created_at for row in load().collect())
    between = str(int(moments[-1].timestamp() * 1000))

    late = load(startingTimestamp=between).count()

    assert late == sum(moment.timestamp() * 1000 >= int(between) for moment in moments)
    assert load(endingTimestamp=between).count() == len(moments) - late
    future = datetime(2100, 1, 1, tzinfo=UTC).isoformat()
    assert load(endingTimestamp=future).count() == len(moments)
    assert load(startingTimestamp=future, startingOffsetsByTimestampStrategy="latest").count() == 0
    with pytest.raises(PySparkException, match="startingTimestamp"):
        load(startingTimestamp=future).count()


def test_several_queues_are_read_together(
    spark: SparkSession, url: str, queue: str, push: Push
) -> None:
    push(10, to=f"{queue}-a")
    push(20, to=f"{queue}-b")
    reader = spark.read.format("skep").option("url", url)

    by_name = reader.option("queue", f"{queue}-a,{queue}-b").load()
    by_pattern = spark.read.format("skep").options(url=url, queuePattern=f"{queue}-.*").load()

    for frame in (by_name, by_pattern):
        counts = {row.queue: row["count"] for row in frame.groupBy("queue").count().collect()}
        assert counts == {f"{queue}-a": 10, f"{queue}-b": 20}


def test_a_view_in_sql_is_a_queue(spark: SparkSession, url: str, queue: str, push: Push) -> None:
    push(12, 3)
    spark.sql(
        f"create or replace temporary view messages using skep options (url '{url}', "
        f"queue '{queue}')"
    )

    (row,) = spark.sql("select count(distinct partition) n from messages").collect()

    assert row.n == 3


def test_what_is_wrong_is_said_before_anything_is_read(load: Load) -> None:
    with pytest.raises(PySparkException, match=r"is unknown; did you mean 'startingOffsets'"):
        load(startingOffset="latest")
    with pytest.raises(PySparkException, match="does not exist"):
        load(queue="no-such-queue").count()


def position(url: str, queue: str) -> str:
    """Where a queue ends."""
    answer = httpx.post(f"{url}/api/v1/journal/heads", json={"queues": [queue]})
    return json.dumps(answer.json()["heads"])
