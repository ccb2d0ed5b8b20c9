"""Queues as tables of Spark's catalog, and as views."""

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from skep import Client
from tests.spark.conftest import Push

pytestmark = pytest.mark.xdist_group("spark")

Make = Callable[..., str]


@pytest.fixture
def make(spark: SparkSession, url: str, queue: str) -> Iterator[Make]:
    """Make a table of the queue, or of what else is said; gives its name."""
    made = []

    def make(how: str = "OPTIONS", *, columns: str = "", **options: str) -> str:
        name = f"t_{uuid4().hex}"
        given = {"url": url, "queue": queue} | options
        pairs = ", ".join(f"'{key}' '{text}'" for key, text in given.items())
        spark.sql(f"CREATE TABLE {name} {columns} USING skep {how} ({pairs})")
        made.append(name)
        return name

    yield make
    for name in made:
        spark.sql(f"DROP TABLE {name}")


def rows(spark: SparkSession, statement: str, table: str) -> list[Row]:
    return spark.sql(statement, {"t": table}).collect()


@pytest.mark.parametrize("how", ["OPTIONS", "TBLPROPERTIES"])
def test_a_table_is_read_with_the_options_it_was_made_with(
    spark: SparkSession, make: Make, push: Push, queue: str, how: str
) -> None:
    push(12, 3)
    table = make(how, partitions="p1,p2")

    found = rows(spark, "SELECT DISTINCT queue FROM IDENTIFIER(:t)", table)
    assert found == [Row(queue=queue)]
    assert spark.table(table).count() == 8
    push(3, 3)
    assert spark.table(table).count() == 10


def test_what_is_inserted_into_a_table_is_pushed(
    spark: SparkSession, make: Make, client: Client, queue: str
) -> None:
    client.queues.configure(queue)
    table = make()

    rows(spark, "INSERT INTO IDENTIFIER(:t) (partition, payload) VALUES ('a', '1')", table)
    again = "SELECT 'b' AS partition, payload FROM IDENTIFIER(:t)"
    rows(spark, f"INSERT INTO IDENTIFIER(:t) BY NAME {again}", table)

    found = spark.table(table).select("partition", "offset", "payload").orderBy("partition")
    assert [tuple(row) for row in found.collect()] == [("a", 0, "1"), ("b", 0, "1")]


def test_a_table_is_read_as_a_stream(
    spark: SparkSession, make: Make, push: Push, checkpoint: str, tmp_path: object
) -> None:
    push(7)
    stream = spark.readStream.table(make(startingOffsets="earliest"))

    writing = stream.writeStream.format("parquet").option("checkpointLocation", checkpoint)
    writing.trigger(availableNow=True).start(f"{tmp_path}/found").awaitTermination()

    assert spark.read.parquet(f"{tmp_path}/found").count() == 7


def test_options_of_a_statement_stand_for_those_of_the_table(
    spark: SparkSession, make: Make, push: Push, url: str, queue: str
) -> None:
    push(10, 2)
    table = make()

    chosen = spark.read.options(url=url, queue=queue, partitions="p1").table(table)

    assert chosen.count() == 5


def test_a_table_with_columns_of_its_own_has_lost_its_options(
    spark: SparkSession, make: Make
) -> None:
    table = make(columns="(partition STRING, payload STRING)")

    with pytest.raises(PySparkException, match="created with a column list loses its options"):
        spark.table(table).collect()
    with pytest.raises(PySparkException, match="created with a column list loses its options"):
        rows(spark, "INSERT INTO IDENTIFIER(:t) VALUES ('a', '1')", table)


def test_a_token_is_not_kept_in_the_catalog(make: Make) -> None:
    with pytest.raises(PySparkException, match="tokenFile or tokenEnv"):
        make(token="secret")


def test_a_frame_of_a_table_goes_where_it_is_told_to(
    spark: SparkSession, make: Make, push: Push, client: Client, url: str, queue: str
) -> None:
    push(4)
    client.queues.configure(f"{queue}-copy")
    frame = spark.table(make(partitions="p0"))

    told = {"url": url, "queue": f"{queue}-copy"}
    frame.write.format("skep").mode("append").options(**told).save()

    assert client.queues.stats(f"{queue}-copy").messages == 4
    assert client.queues.stats(queue).messages == 4


def test_a_view_is_read_and_written(spark: SparkSession, push: Push, url: str, queue: str) -> None:
    push(12, 3)
    view = f"v_{uuid4().hex}"
    spark.sql(f"CREATE TEMPORARY VIEW {view} USING skep OPTIONS (url '{url}', queue '{queue}')")

    rows(spark, "INSERT INTO IDENTIFIER(:t) (partition, payload) VALUES ('p9', '{}')", view)

    assert spark.table(view).select("partition").distinct().count() == 4
