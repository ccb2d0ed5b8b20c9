"""Every message once and byte for byte, however many there are.

``SKEP_MESSAGES=1000000`` does it with as many.
"""

import os
from collections import defaultdict
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

import pytest
from pyspark.sql import DataFrame, SparkSession

from skep import Client, Draft

pytestmark = pytest.mark.xdist_group("spark")

MESSAGES = int(os.environ.get("SKEP_MESSAGES", "50000"))
PARTITIONS = max(1000, MESSAGES // 100)
BATCHES = 5
"""Micro-batches for each part of the messages."""

Sums: TypeAlias = dict[str, tuple[int, int]]
"""Of each partition how many messages there are, and a sum that says what they are and where."""

DIGITS = 15
SUMS = (
    "count(*) AS messages",
    "sum(cast(conv(substr(sha2(concat(payload, cast(concat(partition, '/', offset) AS BINARY)), "
    f"256), 1, {DIGITS}), 16, 10) AS DECIMAL(20))) AS digests",
)


def payload(number: int) -> bytes:
    """Any bytes, of any length, also none."""
    return sha256(b"%d" % number).digest() * (number % 4)


def digest(payload: bytes, partition: str, offset: int) -> int:
    return int(sha256(payload + f"{partition}/{offset}".encode()).hexdigest()[:DIGITS], 16)


def push(client: Client, queue: str, numbers: range) -> Sums:
    """Push them, some of a partition after the other, and say what there is then."""
    pushed: list[Sums] = []
    for some in (numbers[at : at + 1000] for at in range(0, len(numbers), 1000)):
        drafts = [Draft(payload(n), f"p{n // 10 % PARTITIONS}") for n in some]
        receipts = client.push(queue, drafts)
        pushed += [
            {receipt.partition: (1, digest(draft.payload, receipt.partition, receipt.offset))}
            for receipt, draft in zip(receipts, drafts, strict=True)
        ]
    return added(pushed)


def added(parts: Iterable[Sums]) -> Sums:
    total: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for part in parts:
        for partition, (messages, digests) in part.items():
            before = total[partition]
            total[partition] = before[0] + messages, before[1] + digests
    return dict(total)


def sums(frame: DataFrame) -> Sums:
    """The same, as Spark computes it."""
    from pyspark.sql.functions import expr

    rows = frame.groupBy("partition").agg(*map(expr, SUMS)).collect()
    return {row.partition: (row.messages, int(row.digests)) for row in rows}


def test_a_table_has_every_message_once_and_byte_for_byte(
    spark: SparkSession, url: str, client: Client, queue: str
) -> None:
    pushed = push(client, queue, range(MESSAGES))
    reader = spark.read.format("skep").schema("partition STRING, offset BIGINT, payload BINARY")

    frame = reader.options(url=url, queue=queue, payloadFormat="binary", minPartitions=4).load()

    assert len(pushed) == PARTITIONS
    assert sums(frame) == pushed


def test_a_stream_has_every_message_once_though_it_is_restarted_and_batches_are_repeated(
    spark: SparkSession, url: str, client: Client, queue: str, checkpoint: str
) -> None:
    batches: dict[int, Sums] = {}
    repeated: list[bool] = []

    def take(frame: DataFrame, number: int) -> None:
        found = sums(frame)
        if number in batches:
            repeated.append(found == batches[number])
        batches[number] = found

    def run() -> None:
        source = spark.readStream.format("skep").options(
            url=url,
            queue=queue,
            consumerGroup=queue,
            startingOffsets="earliest",
            payloadFormat="binary",
            maxOffsetsPerTrigger=MESSAGES // 3 // BATCHES,
        )
        writer = source.load().writeStream.foreachBatch(take)
        writer = writer.option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(1200)

    pushed = []
    for part in range(3):
        pushed.append(push(client, queue, range(part * MESSAGES // 3, (part + 1) * MESSAGES // 3)))
        run()
        Path(checkpoint, "commits", str(max(batches))).unlink()
    run()

    assert added(batches.values()) == added(pushed)
    assert repeated == [True] * 3
    assert len(batches) >= 3 * BATCHES
