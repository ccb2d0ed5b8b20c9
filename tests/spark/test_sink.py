"""Writing to a queue: everything once, whatever fails."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from shutil import copytree
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, concat, lit, struct, to_json

from pyspark_skep import DefaultSource, RequestRejected
from pyspark_skep.options import Options, parse_options
from pyspark_skep.sink import QueueWriter, StagedTask, StreamWriter
from skep import Client
from skep.client.request import delete
from skep.wire.paths import application
from tests.spark.conftest import Push

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture
def target(queue: str, client: Client) -> str:
    client.queues.configure(f"{queue}-target")
    return f"{queue}-target"


@pytest.fixture
def written(spark: SparkSession, url: str, target: str) -> Callable[[], list[tuple[str, str]]]:
    """What is in the target, in order of partitions and offsets."""

    def written() -> list[tuple[str, str]]:
        frame = spark.read.format("skep").options(url=url, queue=target).load()
        rows = frame.orderBy("partition", "offset").collect()
        return [(row.partition, row.payload) for row in rows]

    return written


Written = Callable[[], list[tuple[str, str]]]


def numbers(spark: SparkSession, count: int, tasks: int = 2) -> DataFrame:
    frame = spark.range(0, count, 1, tasks)
    return frame.select(
        concat(lit("p"), col("id") % 3).alias("partition"),
        to_json(struct("id")).alias("payload"),
        concat(lit("t"), col("id")).alias("transaction_id"),
    )


def expected(count: int) -> list[tuple[str, str]]:
    rows = [(f"p{number % 3}", f'{{"id":{number}}}') for number in range(count)]
    return sorted(rows, key=lambda row: (row[0], int(row[1][6:-1])))


@pytest.mark.parametrize("guarantee", ["exactly-once", "idempotent", "at-least-once"])
def test_a_frame_is_written_whole_and_in_order(
    spark: SparkSession, url: str, target: str, written: Written, guarantee: str
) -> None:
    frame = numbers(spark, 300, 1)

    writer = frame.write.format("skep").mode("append")
    writer.options(url=url, queue=target, guarantee=guarantee).save()

    assert written() == expected(300)


def test_bytes_arrive_as_they_are(spark: SparkSession, url: str, target: str) -> None:
    frame = spark.createDataFrame([(bytearray(b"\xff\x00"),)], "payload binary")
    frame.write.format("skep").mode("append").options(url=url, queue=target).save()

    reader = spark.read.format("skep").options(url=url, queue=target, payloadFormat="binary")
    assert [bytes(row.payload) for row in reader.load().collect()] == [b"\xff\x00"]


def test_a_version_that_was_written_is_not_written_again(
    spark: SparkSession, url: str, target: str, written: Written
) -> None:
    writer = numbers(spark, 30).write.format("skep").mode("append")
    writer = writer.options(url=url, queue=target, txnAppId=f"app-{target}", txnVersion=7)

    writer.save()
    writer.save()

    assert written() == expected(30)


def test_a_task_that_failed_leaves_nothing_behind(
    spark: SparkSession, url: str, target: str, written: Written, tmp_path: Path
) -> None:
    marker = tmp_path / "failed"

    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        if not marker.exists():
            marker.touch()
            raise RuntimeError("told to fail")

    frame = numbers(spark, 100, 1)
    frame.mapInArrow(fail_once, frame.schema).write.format("skep").mode("append").options(
        url=url, queue=target
    ).save()

    assert marker.exists()
    assert written() == expected(100)


def test_a_job_that_failed_has_written_nothing(
    spark: SparkSession, url: str, target: str, written: Written
) -> None:
    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        raise RuntimeError("told to fail")

    frame = numbers(spark, 100, 1)
    with pytest.raises(PySparkException):
        frame.mapInArrow(fail, frame.schema).write.format("skep").mode("append").options(
            url=url, queue=target
        ).save()

    assert written() == []


def test_from_queue_to_queue_every_message_arrives_once_also_when_epochs_repeat(
    spark: SparkSession,
    url: str,
    queue: str,
    target: str,
    written: Written,
    push: Push,
    checkpoint: str,
) -> None:
    def run() -> None:
        source = spark.readStream.format("skep").options(
            url=url, queue=queue, startingOffsets="earliest", maxOffsetsPerTrigger=40
        )
        writer = source.load().writeStream.format("skep").options(url=url, queue=target)
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        assert query.awaitTermination(120)

    pushed = push(100, 3)
    run()
    for file in Path(checkpoint, "commits").glob("*2*"):
        file.unlink()
    pushed += push(10, 3)
    run()

    assert written() == [(name, data.decode()) for name, _, data in sorted(pushed)]


Copying = Callable[..., None]


@pytest.fixture
def copy(spark: SparkSession, url: str, queue: str, target: str) -> Copying:
    """Copy what is new of the queue to the target, with a checkpoint."""

    def copy(
        place: str, limit: int = 1000, columns: Sequence[str] = ("payload",), **options: str
    ) -> None:
        source = spark.readStream.format("skep").options(
            url=url, queue=queue, startingOffsets="earliest", maxOffsetsPerTrigger=limit
        )
        # Without the ids that they have: by these, too, they would not be written twice.
        frame = source.load().selectExpr("partition", *columns)
        writer = frame.writeStream.format("skep").options(url=url, queue=target, **options)
        query = writer.option("checkpointLocation", place).trigger(availableNow=True).start()
        assert query.awaitTermination(120)

    return copy


def test_an_application_with_another_checkpoint_writes_the_same_rows_once(
    copy: Copying, target: str, written: Written, push: Push, checkpoint: str
) -> None:
    push(10)
    told = {"txnAppId": f"app-{target}"}
    copy(f"{checkpoint}/1", **told)
    copy(f"{checkpoint}/2", **told)
    assert len(written()) == 10
    copy(f"{checkpoint}/3")

    assert len(written()) == 20


def test_an_application_that_starts_over_with_a_new_checkpoint_is_refused(
    copy: Copying, client: Client, target: str, written: Written, push: Push, checkpoint: str
) -> None:
    push(30)
    told = {"txnAppId": f"app-{target}"}
    copy(f"{checkpoint}/1", 10, **told)
    push(30)

    with pytest.raises(StreamingQueryException, match=rf"app-{target}.*version 2.*go back"):
        copy(f"{checkpoint}/2", 10, **told)

    assert len(written()) == 30
    client.connection.send(delete(application(f"app-{target}")))
    copy(f"{checkpoint}/2", 10, **told)
    assert len(written()) == 90


def test_a_query_with_a_copy_of_a_checkpoint_does_not_lose_what_it_reads(
    copy: Copying, target: str, written: Written, push: Push, checkpoint: str
) -> None:
    push(10)
    copy(f"{checkpoint}/1")
    copytree(f"{checkpoint}/1", f"{checkpoint}/2")
    push(7)
    copy(f"{checkpoint}/1")
    push(85)

    with pytest.raises(StreamingQueryException, match="7 then, 92 now"):
        copy(f"{checkpoint}/2")

    assert len(written()) == 17
    copy(f"{checkpoint}/1")
    assert len(written()) == 102


def test_a_query_with_a_copy_of_a_checkpoint_is_told_by_its_place_if_rows_are_as_many(
    copy: Copying, written: Written, push: Push, checkpoint: str
) -> None:
    columns = ("concat(payload, uuid()) AS payload",)
    push(10)
    copy(f"{checkpoint}/1", 10, columns)
    copytree(f"{checkpoint}/1", f"{checkpoint}/2")
    push(10)
    copy(f"{checkpoint}/1", 10, columns)

    with pytest.raises(StreamingQueryException, match="10 then, 10 now"):
        copy(f"{checkpoint}/2", 10, columns)

    assert len(written()) == 20


def test_an_epoch_that_is_repeated_with_other_random_ids_is_written_once(
    copy: Copying, written: Written, push: Push, checkpoint: str
) -> None:
    push(30)
    columns = ("concat(payload, uuid()) AS payload",)
    copy(checkpoint, 10, columns)
    before = written()
    for file in Path(checkpoint, "commits").glob("*2*"):
        file.unlink()
    push(5)

    copy(checkpoint, 10, columns)

    assert len(written()) == 35
    assert set(before) < set(written())


def test_a_batch_job_that_is_repeated_with_other_rows_is_refused(
    spark: SparkSession, url: str, target: str, written: Written
) -> None:
    def save(count: int, version: int) -> None:
        writer = numbers(spark, count).write.format("skep").mode("append")
        writer = writer.options(url=url, queue=target, txnVersion=version)
        writer.option("txnAppId", f"app-{target}").save()

    save(30, 7)

    with pytest.raises(PySparkException, match="30 then, 31 now"):
        save(31, 7)
    with pytest.raises(PySparkException, match="cannot go back to version 6"):
        save(31, 6)

    assert written() == expected(30)


def test_a_commit_that_spark_believes_to_have_failed_is_neither_undone_nor_repeated(
    spark: SparkSession,
    url: str,
    queue: str,
    target: str,
    written: Written,
    push: Push,
    checkpoint: str,
    tmp_path: Path,
) -> None:
    """Spark aborts it, and runs the epoch again after a restart."""
    marker = tmp_path / "failed"

    class Unheard(StreamWriter):
        def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
            super().commit(messages, batchId)
            if not marker.exists():
                marker.touch()
                raise RuntimeError("told to fail")

    class Source(DefaultSource):
        @classmethod
        def name(cls) -> str:
            return "skep-unheard"

        def streamWriter(self, schema: Any, overwrite: bool) -> StreamWriter:  # noqa: N802
            return Unheard(parse_options(self.options))

    def run() -> None:
        source = spark.readStream.format("skep").options(
            url=url, queue=queue, startingOffsets="earliest", maxOffsetsPerTrigger=40
        )
        writer = source.load().writeStream.format("skep-unheard").options(url=url, queue=target)
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        assert query.awaitTermination(120)

    spark.dataSource.register(Source)
    pushed = push(100, 3)
    with pytest.raises(StreamingQueryException):
        run()
    assert len(written()) == 40
    run()

    assert written() == [(name, data.decode()) for name, _, data in sorted(pushed)]


def test_a_queue_is_not_overwritten(spark: SparkSession, url: str, target: str) -> None:
    writer = numbers(spark, 1).write.format("skep").mode("overwrite")

    with pytest.raises(PySparkException, match="never overwritten"):
        writer.options(url=url, queue=target).save()


def test_a_payload_that_is_no_text_is_refused_with_what_to_do(
    spark: SparkSession, url: str, target: str
) -> None:
    frame = spark.range(1).select(struct("id").alias("payload"))

    with pytest.raises(PySparkException, match="to_json"):
        frame.write.format("skep").mode("append").options(url=url, queue=target).save()


# The protocol by itself.


def batch(*payloads: str | None) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"payload": pa.array(payloads, pa.string())})


@pytest.fixture
def sink(url: str, target: str) -> QueueWriter:
    return QueueWriter(Options(url, queue=(target,)))


def payloads(client: Client, target: str) -> int:
    return client.queues.stats(target).messages


def test_what_is_staged_is_not_seen(sink: QueueWriter, client: Client, target: str) -> None:
    staged = sink.write(batch("1", "2"), f"app-{target}", 0)

    assert (staged.chunks, staged.rows) == (1, 2)
    assert payloads(client, target) == 0
    sink.commit([staged])
    assert payloads(client, target) == 2


def test_an_abort_after_a_commit_changes_nothing(
    sink: QueueWriter, client: Client, target: str
) -> None:
    """Spark aborts a commit whose answer it did not hear."""
    staged = sink.write(batch("1", "2"), f"app-{target}", 0)
    sink.commit([staged])

    sink.abort([staged, None])
    sink.commit([staged])

    assert payloads(client, target) == 2


def test_a_commit_of_a_batch_can_be_repeated(
    sink: QueueWriter, client: Client, target: str
) -> None:
    staged = sink.write(batch("1"), f"app-{target}", None)

    sink.commit([staged])
    sink.commit([staged])

    assert payloads(client, target) == 1


def test_an_epoch_that_is_repeated_with_other_tasks_is_not_written_again(
    sink: QueueWriter, client: Client, target: str
) -> None:
    sink.commit([sink.write(batch("1", "2"), f"app-{target}", 3)])

    sink.commit([sink.write(batch(text), f"app-{target}", 3) for text in ("1", "2")])

    assert payloads(client, target) == 2


def test_what_is_aborted_is_gone(sink: QueueWriter, client: Client, target: str) -> None:
    staged = sink.write(batch("1"), f"app-{target}", 0)
    sink.abort([staged])

    with pytest.raises(RequestRejected):
        sink.commit([staged])
    assert payloads(client, target) == 0


def test_nothing_to_write_asks_the_server_nothing() -> None:
    sink = QueueWriter(Options("http://127.0.0.1:1", queue=("a",)))

    staged = sink.write(iter(()), "app", 0)

    assert staged == StagedTask("app", 0, staged.stage, 0, 0)
    sink.commit([staged, None])
    sink.abort([staged, None])


def test_a_payload_that_is_missing_is_refused(sink: QueueWriter, target: str, url: str) -> None:
    with pytest.raises(RequestRejected):
        sink.write(batch("1", None), f"app-{target}", 0)
    for guarantee in ("idempotent", "at-least-once"):
        with pytest.raises((ValueError, KeyError)):
            QueueWriter(Options(url, queue=(target,), guarantee=guarantee)).write(
                batch(None), f"app-{target}", 0
            )


def test_what_is_pushed_again_is_recognised_by_its_id(
    url: str, client: Client, target: str
) -> None:
    named = pa.RecordBatch.from_pydict({"payload": ["1", "2"], "id": ["a", "b"]})
    told = Options(url, queue=(target,), guarantee="idempotent", transaction_id="id")
    careless = Options(url, queue=(target,), guarantee="at-least-once")

    for _ in range(2):
        QueueWriter(told).write(iter([named]), "app", 0)
    assert payloads(client, target) == 2
    for _ in range(2):
        QueueWriter(careless).write(batch("3"), "app", 0)

    assert payloads(client, target) == 4


def test_the_order_of_stages_is_that_of_tasks(
    sink: QueueWriter, client: Client, target: str
) -> None:
    later = sink.write(batch("3", "4"), f"app-{target}", 0)
    first = sink.write(batch("1", "2"), f"app-{target}", 0)

    sink.commit([first, later])

    found: Any = client.pop(target, batch=10)
    assert [message.payload for message in found.messages] == [b"1", b"2", b"3", b"4"]
