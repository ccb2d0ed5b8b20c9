"""What a stream is told: where it begins, how much a batch has, what it says to the server."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from skep import Client, Draft
from skep.model.message import Message
from tests.spark.conftest import Push, messages_in
from tests.support.spark.stream_run import Row, Run, lag

pytestmark = pytest.mark.xdist_group("spark")

Stream = Callable[..., Run]
NEVER = "2100-01-01"


def milliseconds(message: Message) -> int:
    return int(message.created_at.timestamp() * 1000)


def row(message: Message) -> Row:
    return message.partition, message.offset, message.payload


# Where it begins.


def test_a_stream_begins_at_a_time_and_goes_on_from_its_checkpoint(
    run: Stream, push: Push, client: Client, queue: str
) -> None:
    push(10)
    early = milliseconds(messages_in(client, queue)[-1])
    while (moment := milliseconds(messages_in(client, queue)[-1])) == early:
        push(1)
    expected = [row(each) for each in messages_in(client, queue) if milliseconds(each) >= moment]
    stream = run(startingOffsets=None, startingTimestamp=moment)

    stream()
    assert stream.rows == expected
    later = push(3)
    stream()

    assert stream.rows == expected + later


def test_a_time_to_come_is_refused_or_means_what_comes(run: Stream, push: Push) -> None:
    push(5)
    told: dict[str, Any] = {"startingOffsets": None, "startingTimestamp": NEVER}
    lenient = run(**told, startingOffsetsByTimestampStrategy="latest")

    with pytest.raises(StreamingQueryException, match="later than all messages"):
        run(**told)()
    lenient()
    assert lenient.rows == []
    later = push(3)
    lenient()

    assert lenient.rows == later


def test_a_time_before_what_is_kept_loses_nothing(
    run: Stream, push: Push, client: Client, queue: str
) -> None:
    push(5)
    client.queues.clear(queue)
    kept = push(3)

    assert run(startingOffsets=None, startingTimestamp=0)().rows == kept


def test_a_stream_begins_at_a_position(run: Stream, push: Push, url: str, queue: str) -> None:
    push(5)
    heads = httpx.post(f"{url}/api/v1/journal/heads", json={"queues": [queue]}).json()["heads"]
    later = push(3)

    assert run(startingOffsets=json.dumps(heads))().rows == later


def test_a_stream_has_the_partitions_that_it_was_told(run: Stream, push: Push) -> None:
    pushed = push(30, 15)

    stream = run(partitionPrefix="p1", maxOffsetsPerTrigger=10)()

    assert stream.rows == sorted(each for each in pushed if each[0].startswith("p1"))


# How much a batch has.


def test_a_batch_has_so_many_bytes_unless_one_segment_has_more(
    run: Stream, client: Client, queue: str
) -> None:
    most = 25_000
    for count, size in ((10, 1000), (10, 1000), (10, 1000), (1, 100_000), (10, 1000), (10, 1000)):
        client.push(queue, [Draft(b"x" * size)] * count)

    stream = run(maxBytesPerTrigger=most)()

    sizes = [sum(len(payload) for _, _, payload in rows) for _, rows in stream.batches]
    assert sizes == [20_000, 10_000, 100_000, 20_000]
    assert stream.rows == [row(each) for each in messages_in(client, queue)]


def test_a_stream_takes_no_batch_before_there_is_enough(run: Stream, push: Push) -> None:
    push(6)
    stream = run(minOffsetsPerTrigger=10, maxTriggerDelay="1h", pollTimeout="50ms")
    query = stream.start()
    try:
        query.processAllAvailable()
        assert stream.sizes == []
        push(6)
        stream.wait_for_some(query)
    finally:
        query.stop()

    assert stream.sizes == [12]


def test_a_stream_does_not_wait_for_enough_longer_than_it_was_told(run: Stream, push: Push) -> None:
    push(6)
    stream = run(minOffsetsPerTrigger=10, maxTriggerDelay="100ms", pollTimeout="50ms")
    query = stream.start()
    try:
        stream.wait_for_some(query)
    finally:
        query.stop()

    assert stream.sizes == [6]


def test_what_is_available_now_waits_for_no_more(run: Stream, push: Push) -> None:
    push(6)

    assert run(minOffsetsPerTrigger=10, maxTriggerDelay="1h")().sizes == [6]


# What it says to the server.


def test_a_stream_that_does_not_commit_leaves_its_group_where_it_began(
    run: Stream, push: Push, url: str, queue: str
) -> None:
    push(30)
    stream = run(maxOffsetsPerTrigger=10, commitCursor=False)

    stream()
    assert lag(url, queue) == 30
    push(20)
    stream()

    assert stream.sizes == [10, 10, 10, 10, 10]
    assert lag(url, queue) == 50


def test_a_stream_that_does_not_commit_begins_anew_without_its_checkpoint(
    spark: SparkSession, url: str, queue: str, push: Push, tmp_path: Path
) -> None:
    def run(checkpoint: str) -> Run:
        told = {"queue": queue, "consumerGroup": queue, "commitCursor": False}
        return Run(spark, url, str(tmp_path / checkpoint), **told, startingOffsets="latest")

    push(5)
    first = run("one")
    first()
    push(5)
    first()
    push(5)

    assert first.sizes == [5]
    assert run("two")().sizes == []
