"""Reading a queue as a stream: nothing twice, nothing left out, from where it was told."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from pyspark_skep import DataLost, RequestRejected
from pyspark_skep.column import MESSAGE_COLUMNS
from pyspark_skep.options import Options
from pyspark_skep.position import JournalPosition, rows_between
from pyspark_skep.stream import StreamReader
from skep import Client, Draft
from tests.spark.conftest import Push
from tests.support.server_process import ServerProcess
from tests.support.spark.stream_run import Run, lag

pytestmark = pytest.mark.xdist_group("spark")


def test_a_stream_reads_all_in_batches_and_goes_on_after_a_restart(
    run: Callable[..., Run], push: Push, url: str, queue: str
) -> None:
    pushed = push(250, 20)
    stream = run(maxOffsetsPerTrigger=100)

    stream()
    assert [len(rows) for _, rows in stream.batches] == [100, 100, 50]
    pushed += push(30, 20)
    stream()

    assert stream.rows == sorted(pushed)
    assert [number for number, _ in stream.batches] == [0, 1, 2, 3]
    assert lag(url, queue) == 0
    assert stream.progress[0].sources[0].latestOffset


def test_a_batch_that_failed_is_read_again_as_it_was(run: Callable[..., Run], push: Push) -> None:
    pushed = push(20)
    stream = run(maxOffsetsPerTrigger=10)
    stream.fail_at = 1

    with pytest.raises(StreamingQueryException):
        stream()
    pushed += push(5)
    stream()

    (first,) = [rows for number, rows in stream.batches if number == 0]
    failed, again = [rows for number, rows in stream.batches if number == 1]
    assert failed == again
    assert sorted(set(stream.rows)) == sorted(pushed)
    assert len(first) == 10


def test_a_first_batch_that_failed_begins_where_it_began(
    run: Callable[..., Run], push: Push
) -> None:
    """The start is kept by the server: asked again, "latest" would be another place."""
    push(5)
    reader = run(startingOffsets="latest")
    reader.fail_at = 0

    with pytest.raises(StreamingQueryException):
        reader()
    later = push(3)
    reader()

    assert reader.rows == sorted(later)


def test_a_checkpoint_that_lost_its_last_commit_repeats_that_batch(
    run: Callable[..., Run], push: Push, checkpoint: str
) -> None:
    push(20)
    stream = run(maxOffsetsPerTrigger=10)()
    for file in Path(checkpoint, "commits").glob("*1*"):
        file.unlink()

    again = run(maxOffsetsPerTrigger=10)()

    assert again.batches[0] == stream.batches[1]


def test_a_queue_that_appears_is_read_from_its_beginning(
    run: Callable[..., Run], push: Push, queue: str
) -> None:
    options = {"queuePattern": f"{queue}-.*", "queue": None}
    push(5, to=f"{queue}-a")
    stream = run(**options)()
    push(7, to=f"{queue}-b")
    stream()

    assert [len(rows) for _, rows in stream.batches] == [5, 7]


def test_the_lag_that_everybody_sees_is_what_is_not_yet_in_the_checkpoint(
    run: Callable[..., Run], push: Push, client: Client, queue: str
) -> None:
    def left() -> int:
        return sum(lane.backlog for lane in client.groups.lanes(queue, queue))

    def watch() -> None:
        """While a batch runs the server is told that the one before it is safe."""
        expected = total - sum(len(rows) for _, rows in stream.batches[:-1])
        until = time.monotonic() + 10
        while left() != expected and time.monotonic() < until:
            time.sleep(0.01)
        seen.append(left())

    seen: list[int] = []
    stream = run(maxOffsetsPerTrigger=40)
    stream.during = watch

    total = len(push(100, 7))
    stream()
    assert (seen, left()) == ([100, 60, 20], 0)
    total += len(push(50, 7))
    assert left() == 50
    stream.fail_at = 4
    with pytest.raises(StreamingQueryException):
        stream()
    assert (seen[3:], left()) == ([50, 10], 10)
    stream.batches.pop()
    stream()

    assert (seen[5:], left()) == ([10], 0)


def test_a_stream_that_retention_overtakes_says_what_is_gone_or_goes_on_and_counts_it(
    spark: SparkSession, spark_log: Path, tmp_path: Path
) -> None:
    def stream(**options: Any) -> Run:
        return Run(spark, server.url, str(tmp_path / "checkpoint"), queue="slow", **options)

    with (
        ServerProcess(tmp_path / "data", SKEP_SWEEP_SECONDS="0.1") as server,
        Client(server.url) as client,
    ):
        for _ in range(5):
            client.push("slow", [Draft(b"old")] * 20)
        slow = stream(maxOffsetsPerTrigger=50)
        slow.fail_at = 1
        with pytest.raises(StreamingQueryException):
            slow()
        client.queues.configure("slow", retention_enabled=True, retention_seconds=1)
        while client.queues.stats("slow").messages:
            time.sleep(0.05)
        client.queues.configure("slow", retention_enabled=False)
        client.push("slow", [Draft(b"new")] * 10)

        removed = "messages 50 to 99 of lane 0 of queue 'slow' were removed"
        with pytest.raises(StreamingQueryException, match=removed):
            stream()()
        lenient = stream(failOnDataLoss=False)()

    assert lenient.rows == [("Default", offset, b"new") for offset in range(100, 110)]
    assert "skipped removed messages: queue='slow' messages=50" in spark_log.read_text()


# The driver's side by itself.


def reader(url: str, queue: str, **chosen: Any) -> StreamReader:
    usual: dict[str, Any] = {"queue": (queue,), "consumer_group": queue, "poll_timeout": 50}
    return StreamReader(Options(url, **usual | chosen), MESSAGE_COLUMNS)


def sizes(one: StreamReader, limit: ReadLimit) -> list[int]:
    """How many messages its batches have until nothing is new."""
    position, found = one.initialOffset(), []
    while (end := one.latestOffset(position, limit)) != position:
        found.append(rows_between(position, end))
        position = end
    return found


def test_the_start_is_the_same_however_often_and_by_whom_it_is_asked(
    url: str, queue: str, push: Push
) -> None:
    push(3)
    one = reader(url, queue)
    start = one.initialOffset()
    push(3)

    assert one.initialOffset() == start
    assert reader(url, queue).initialOffset() == start
    assert rows_between(start, one.latestOffset(start, ReadAllAvailable())) == 3


def test_without_anything_new_the_end_is_the_start_itself(url: str, queue: str, push: Push) -> None:
    push(3)
    one = reader(url, queue)
    start = one.initialOffset()

    assert json.dumps(one.latestOffset(start, ReadAllAvailable())) == json.dumps(start)


def test_a_message_ends_the_wait(url: str, queue: str, push: Push) -> None:
    push(1)
    one = reader(url, queue, poll_timeout=200)
    end = one.latestOffset(one.initialOffset(), ReadAllAvailable())
    push(1)
    end = one.latestOffset(end, ReadAllAvailable())
    began = time.monotonic()

    assert one.latestOffset(end, ReadAllAvailable()) == end
    assert time.monotonic() - began >= 0.19
    push(1)
    assert one.latestOffset(end, ReadAllAvailable()) != end


def test_limits_are_followed_unless_spark_asks_for_all(url: str, queue: str, push: Push) -> None:
    push(100, 5)
    one = reader(url, queue, starting_offsets="earliest", max_offsets_per_trigger=10)
    start = one.initialOffset()

    assert one.getDefaultReadLimit() == ReadMaxRows(10)
    assert rows_between(start, one.latestOffset(start, ReadMaxRows(10))) == 10
    assert rows_between(start, one.latestOffset(start, ReadAllAvailable())) == 100
    assert rows_between(start, one.latestOffset()) == 100
    heads = one.reportLatestOffset()
    assert heads is not None
    assert rows_between(start, heads) == 100


def test_a_batch_with_two_limits_keeps_both(url: str, queue: str, client: Client) -> None:
    for size in (1000, 1000, 15_000, 15_000):
        client.push(queue, [Draft(b"x" * size)] * 2)
    limits = {"max_offsets_per_trigger": 3, "max_bytes_per_trigger": 25_000}
    one = reader(url, queue, starting_offsets="earliest", **limits)

    assert sizes(one, one.getDefaultReadLimit()) == [3, 1, 2, 2]


def test_a_batch_waits_for_enough_messages_but_not_for_ever(
    url: str, queue: str, push: Push
) -> None:
    push(5)
    chosen: dict[str, Any] = {"starting_offsets": "earliest", "min_offsets_per_trigger": 10}
    patient = reader(url, queue, **chosen)
    start = patient.initialOffset()
    limit = patient.getDefaultReadLimit()

    assert patient.latestOffset(start, limit) == start
    hasty = reader(url, queue, **chosen, max_trigger_delay=0)
    assert rows_between(start, hasty.latestOffset(start, limit)) == 5
    push(5)
    assert rows_between(start, patient.latestOffset(start, limit)) == 10


def test_what_is_available_now_is_what_was_there_at_the_beginning(
    url: str, queue: str, push: Push
) -> None:
    push(25)
    one = reader(url, queue, starting_offsets="earliest", max_offsets_per_trigger=10)
    one.prepareForTriggerAvailableNow()
    push(25)

    assert sizes(one, ReadMaxRows(10)) == [10, 10, 5]


def test_the_place_of_a_group_moves_with_the_checkpoint(url: str, queue: str, push: Push) -> None:
    push(10)
    one = reader(url, queue, starting_offsets="earliest")
    start = one.initialOffset()
    end = one.latestOffset(start, ReadAllAvailable())
    assert lag(url, queue) == 10

    one.latestOffset(end, ReadAllAvailable())

    until = time.monotonic() + 10
    while lag(url, queue) and time.monotonic() < until:
        time.sleep(0.01)
    assert lag(url, queue) == 0
    other = reader(url, queue, starting_offsets="group").initialOffset()
    assert rows_between(other, end) == 0


def test_a_queue_that_was_made_anew_is_an_error_unless_loss_is_allowed(
    url: str, queue: str, client: Client, push: Push
) -> None:
    push(10)
    one = reader(url, queue, starting_offsets="earliest")
    end = one.latestOffset(one.initialOffset(), ReadAllAvailable())
    client.queues.delete(queue)
    push(4)

    with pytest.raises(RequestRejected, match="anew"):
        one.latestOffset(end, ReadAllAvailable())
    lenient = reader(url, queue, fail_on_data_loss=False)
    after: JournalPosition = lenient.latestOffset(end, ReadAllAvailable())
    assert rows_between(end, after) == 4
    assert len(lenient.partitions(end, after)) == 1
    with pytest.raises(DataLost):
        one.partitions(end, after)
