"""Spark on a queue beside other ways to bring the same messages into Spark, in one run.

    make bench-spark

Everything shares the cores of one machine: Spark, its Python workers and the server. What is read
goes to Spark's ``noop``, which takes every row and does nothing with it.
"""

import asyncio
import statistics
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import asyncpg
from pyspark.sql.datasource import InputPartition
from tests.support.faults.postgres_cluster import Cluster

import skep as embedded
from benchmarks.door import process
from benchmarks.payloads import ORDERS
from benchmarks.report import Report, directory, parser
from benchmarks.rows.drive import Rows, Seed
from pyspark_skep import DefaultSource
from pyspark_skep.column import project
from pyspark_skep.options import parse_options
from pyspark_skep.reader import BatchReader
from skep import Client, Draft
from skep.spark import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader
    from pyspark.sql.types import StructType

PARTITIONS = 10_000
FLAT = (10, 10_000, 100_000)
TASKS = 4
WARM, TURNS = 2, 5
BATCHES = 25
PUSHES = 500
FEW = "partition STRING, offset BIGINT, payload STRING"
AS_ROWS = (
    "message_id STRING, transaction_id STRING, trace_id STRING, partition STRING, "
    "created_at TIMESTAMP, payload STRING"
)
"""What a row of the table has as well."""
_FILL_ROWS = """
INSERT INTO queen.messages (transaction_id, partition_id, payload)
SELECT gen_random_uuid()::text, p.ids[1 + n % cardinality(p.ids)], jsonb_build_object(
           'order', 12345, 'customer', 'alice', 'note', repeat(md5(n::text), 4) || md5(n::text))
  FROM generate_series(1, $1::integer) AS n,
       (SELECT array_agg(id) AS ids FROM queen.partitions) AS p"""
# The driver knows no uuid and no jsonb, and Spark needs a number to cut the table by.
_READ_ROWS = """
(SELECT id::text, transaction_id, trace_id::text, partition_id::text, created_at, payload::text,
        abs(hashtext(transaction_id)) % 4 AS task
   FROM queen.messages) AS messages"""


# The queue.


async def fill(store: Path, messages: int, partitions: int, size: int) -> None:
    """Push so many messages, ``size`` of a partition at a time."""
    payloads = [payload.encode() for payload in ORDERS]

    def drafts(turn: int) -> list[Draft]:
        return [
            Draft(payloads[(turn + n) % len(payloads)], f"p{turn % partitions}")
            for n in range(size)
        ]

    pushes = -(-messages // size)
    # Pushes to the same partition at the same time would become one segment.
    wave = min(200, partitions)
    async with embedded.open(store) as queue:
        for begin in range(0, pushes, wave):
            turns = range(begin, min(begin + wave, pushes))
            await asyncio.gather(*(queue.push("orders", drafts(turn)) for turn in turns))
        await queue.queues.configure("copy")


@contextmanager
def filled(messages: int, partitions: int, size: int) -> Iterator[str]:
    """A server over a queue with so many messages; gives its URL."""
    with directory() as path:
        asyncio.run(fill(path, messages, partitions, size))
        arguments = ("--store", str(path), "--port", "PORT", "--log-level", "error")
        with process("skep", "serve", *arguments) as url:
            yield url


def orders(spark: "SparkSession", url: str, schema: str | None = None) -> "DataFrame":
    reader = spark.read.format("skep").options(url=url, queue="orders", minPartitions=TASKS)
    return (reader.schema(schema) if schema else reader).load()


# What is beside it.


class Tuples(BatchReader):
    """The same messages, but each as a tuple of Python, as sources without Arrow give them."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        for batch in super().read(partition):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


class TuplesSource(DefaultSource):
    @classmethod
    def name(cls) -> str:
        return "tuples"

    def reader(self, schema: "StructType") -> Tuples:
        options = parse_options(self.options)
        return Tuples(options, project(options, schema))


def tuples(spark: "SparkSession", url: str) -> "DataFrame":
    spark.dataSource.register(TuplesSource)
    reader = spark.read.format("tuples").options(url=url, queue="orders", minPartitions=TASKS)
    return reader.load()


@contextmanager
def table(messages: int) -> Iterator[str]:
    """A table with a row for each message, as the seed schema has them, over TCP for Java."""
    with Cluster() as cluster:
        url = cluster.url(asyncio.run(cluster.create()))
        asyncio.run(fill_table(url, messages))
        yield url


async def fill_table(url: str, messages: int) -> None:
    await Rows(url, Seed()).prepare(PARTITIONS)
    connection = await asyncpg.connect(url)
    try:
        # Its triggers count what is pushed, which is not what is measured here.
        await connection.execute("ALTER TABLE queen.messages DISABLE TRIGGER USER")
        await connection.execute(_FILL_ROWS, messages, timeout=600)
        await connection.execute("VACUUM ANALYZE queen.messages", timeout=600)
        # Otherwise it is written while others are measured.
        await connection.execute("CHECKPOINT", timeout=600)
    finally:
        await connection.close()


def jdbc(spark: "SparkSession", url: str) -> "DataFrame":
    parts = urlsplit(url)
    return (
        spark.read.format("jdbc")
        .option("url", f"jdbc:postgresql://{parts.hostname}:{parts.port or 5432}{parts.path}")
        .options(user=parts.username or "postgres", password=parts.password or "")
        .options(driver="org.postgresql.Driver", dbtable=_READ_ROWS, fetchsize=10_000)
        .options(partitionColumn="task", lowerBound=0, upperBound=TASKS, numPartitions=TASKS)
        .load()
    )


# How it is measured.


def seconds(work: Callable[[], None]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def in_turns(works: Sequence[Callable[[], None]]) -> list[float]:
    """Seconds for each, the median of several turns after some that warm up."""
    turns = [[seconds(work) for work in works] for _ in range(WARM + TURNS)]
    return [statistics.median(taken) for taken in zip(*turns[WARM:], strict=True)]


def rates(report: Report, messages: int, beside: str, works: dict[str, Callable[[], None]]) -> None:
    """The rate of each, and of what the one is that they are all beside."""
    taken = dict(zip(works, in_turns(list(works.values())), strict=True))
    for name, each in taken.items():
        ratios = {} if name == beside else {beside: taken[beside] / each}
        report.rate(name, messages / each, **ratios)


def drain(frame: "DataFrame") -> None:
    frame.write.format("noop").mode("overwrite").save()


def reading(report: Report, spark: "SparkSession", messages: int, url: str, parquet: str) -> None:
    # A frame is planned once, so each turn has a new one.
    works: dict[str, Callable[[], None]] = {
        "Parquet": lambda: drain(spark.read.parquet(parquet)),
        "queue": partial(_drain_orders, spark, url),
        "queue, three columns": lambda: drain(orders(spark, url, FEW)),
        "queue, as tuples": lambda: drain(tuples(spark, url)),
    }
    rates(report, messages, "queue", works)


def reading_rows(report: Report, spark: "SparkSession", messages: int, url: str, rows: str) -> None:
    works: dict[str, Callable[[], None]] = {
        "rows by JDBC": lambda: drain(jdbc(spark, rows)),
        "queue, what a row has": lambda: drain(orders(spark, url, AS_ROWS)),
        "queue, everything": partial(_drain_orders, spark, url),
    }
    rates(report, messages, "rows by JDBC", works)


def pushing(report: Report, spark: "SparkSession", url: str) -> None:
    """What a push of one message takes while Spark has all that the server can give it."""
    with Client(url) as client:

        def push() -> None:
            client.push("pushed", [Draft(ORDERS[0].encode())])

        alone = [seconds(push) for _ in range(PUSHES)]
        meanwhile: list[float] = []
        for _ in range(TURNS):
            reading = threading.Thread(target=_drain_orders, args=(spark, url))
            reading.start()
            while reading.is_alive():
                meanwhile.append(seconds(push))
    for name, taken in (("alone", alone), ("while Spark reads", meanwhile)):
        percentiles = statistics.quantiles(taken, n=100)
        report.value(f"a push, {name}, p50", 1000 * percentiles[49], "ms")
        report.value(f"a push, {name}, p99", 1000 * percentiles[98], "ms")


def writing(report: Report, spark: "SparkSession", messages: int, url: str, parquet: str) -> None:
    frame = spark.read.parquet(parquet).select("partition", "payload")

    def push(guarantee: str) -> None:
        options = {"url": url, "queue": "copy", "guarantee": guarantee}
        frame.write.format("skep").mode("append").options(**options).save()

    works: dict[str, Callable[[], None]] = {
        "to Parquet": lambda: frame.write.mode("overwrite").parquet(f"{parquet}-copy"),
        "to a queue, exactly once": lambda: push("exactly-once"),
        "to a queue, at least once": lambda: push("at-least-once"),
    }
    rates(report, messages, "to Parquet", works)


def micro_batches(report: Report, spark: "SparkSession", url: str, checkpoints: Path) -> None:
    rate = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=10, numPartitions=1)
    queue = spark.readStream.format("skep").options(
        url=url, queue="orders", startingOffsets="earliest", maxOffsetsPerTrigger=10
    )
    least = trigger(rate, str(checkpoints / "rate"))
    ours = trigger(queue, str(checkpoints / "queue"))
    report.value("a trigger of Spark's own rate source", least, "ms")
    report.value("a trigger of a queue", ours, "ms")
    report.value("a trigger of a queue, beside the rate source", ours / least, "times")


def trigger(reader: "DataStreamReader", checkpoint: str) -> float:
    """Milliseconds that a small batch takes: the median, when it has warmed up."""
    query = (
        reader.load().writeStream.format("noop").option("checkpointLocation", checkpoint).start()
    )
    while len(query.recentProgress) < 2 * BATCHES:
        if (error := query.exception()) is not None:
            raise error
        time.sleep(0.1)
    query.stop()
    progress = query.recentProgress[-BATCHES:]
    taken = [float(each["durationMs"]["triggerExecution"]) for each in progress]
    return statistics.median(taken)


def _drain_orders(spark: "SparkSession", url: str) -> None:
    drain(orders(spark, url))


def flat(report: Report, spark: "SparkSession", messages: int) -> None:
    first = 0.0
    for partitions in FLAT:
        with filled(messages, partitions, 10) as url:
            (taken,) = in_turns([partial(_drain_orders, spark, url)])
        rate = messages / taken
        first = first or rate
        report.rate(f"{partitions:,} partitions", rate, **{f"{FLAT[0]}": rate / first})


def measure(report: Report, spark: "SparkSession", messages: int, rows: str | None) -> None:
    with directory() as room, filled(messages, PARTITIONS, 100) as url:
        parquet = str(room / "parquet")
        orders(spark, url).write.parquet(parquet)
        report.title(f"reading {messages:,} messages of {PARTITIONS:,} partitions")
        reading(report, spark, messages, url, parquet)
        if rows is not None:
            report.title("reading, beside a table with a row for each message")
            reading_rows(report, spark, messages, url, rows)
        report.title("pushing one message")
        pushing(report, spark, url)
        report.title("micro-batches of ten messages")
        micro_batches(report, spark, url, room)
        report.title("writing")
        writing(report, spark, messages, url, parquet)
    report.title("reading, ten messages in each segment")
    flat(report, spark, messages)


def arguments() -> Namespace:
    options = parser(__doc__)
    options.add_argument("--messages", type=int, default=1_000_000)
    driver = Path("/usr/share/java/postgresql.jar")
    options.add_argument("--driver", type=Path, default=driver, help="PostgreSQL's for Java")
    return options.parse_args()


def main() -> None:
    given, report = arguments(), Report()
    # The session of this package starts soon and compiles little; a benchmark wants it compiled.
    conf: dict[str, Any] = {
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
    }
    has_driver = given.driver.exists()
    if has_driver:
        conf["spark.jars"] = str(given.driver)
    spark = session("skep-bench", **conf)
    try:
        with table(given.messages) if has_driver else nullcontext() as rows:
            measure(report, spark, given.messages, rows)
    finally:
        spark.stop()
    report.save(given.save)


if __name__ == "__main__":
    main()
