"""Archives hold what queues held, once, and give it back."""

import os
import signal
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from skep import Client, Draft
from skep.pipelines import replay as replaying
from skep.pipelines.archive import read_archive
from skep.pipelines.record import Records
from skep.pipelines.replay import Target, paced
from skep.pipelines.steps.archive import dated
from skep.pipelines.steps.replay import sliced
from tests.spark.conftest import Market, Push, messages_in
from tests.support.cli_shell import Shell

pytestmark = pytest.mark.xdist_group("spark")

ARCHIVE = ("pipeline", "run", "archive")
REPLAY = ("pipeline", "run", "replay")


def content(client: Client, queue: str) -> list[tuple[Any, ...]]:
    """What a replay must keep of a queue."""
    return [
        (each.partition, each.offset, each.payload, each.transaction_id, each.trace_id)
        for each in messages_in(client, queue)
    ]


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    columns = ("partition", "offset", "payload")
    return sorted((a, b, bytes(c)) for a, b, c in frame.select(*columns).collect())


def test_an_archive_holds_each_message_byte_for_byte_and_a_second_run_adds_what_is_new(
    spark: SparkSession, shell: Shell, client: Client, push: Push, queue: str, tmp_path: Path
) -> None:
    pushed = push(400, 9)
    client.push(queue, [Draft(b"\xff\x00 is no text", "bytes")])
    pushed.append(("bytes", 0, b"\xff\x00 is no text"))
    command = (*ARCHIVE, "--queue", queue, "--to", str(tmp_path / "archive"))

    first = shell.json(*command)
    more = push(30, 9)
    second = shell.json(*command)

    assert [run["archived"] for run in (first, second)] == [401, 30]
    assert second["archivedInAll"] == 431
    archived = read_archive(spark, str(tmp_path / "archive"))
    assert rows_of(archived) == sorted(pushed + more)
    assert {row.queue for row in archived.collect()} == {queue}


def test_files_are_of_one_queue_and_day_sorted_and_compressed(
    shell: Shell, push: Push, queue: str, tmp_path: Path
) -> None:
    push(300, 7, to=f"{queue}-a")
    push(300, 7, to=f"{queue}-b")
    names = ("--queue", f"{queue}-a", "--queue", f"{queue}-b")

    shell.run(*ARCHIVE, *names, "--to", str(tmp_path / "archive"))

    files = sorted((tmp_path / "archive").glob("queue=*/date=*/*.parquet"))
    today = f"date={datetime.now(UTC):%Y-%m-%d}"
    assert {path.parts[-3] for path in files} == {f"queue={queue}-a", f"queue={queue}-b"}
    assert today in {path.parts[-2] for path in files}
    for path in files:
        file = pq.ParquetFile(path)
        places = file.read(["partition", "offset"]).to_pylist()
        assert places == sorted(places, key=lambda place: (place["partition"], place["offset"]))
        assert file.metadata.row_group(0).column(0).compression == "ZSTD"


def test_an_archive_that_follows_goes_on_until_it_is_stopped(
    spark: SparkSession, shell: Shell, push: Push, queue: str, tmp_path: Path
) -> None:
    push(50)
    records = Records(tmp_path / "home/skep/pipelines")
    stopper = threading.Thread(target=stop_after, args=(records, 50))

    stopper.start()
    done = shell.json(
        *(*ARCHIVE, "--queue", queue, "--to", str(tmp_path / "archive")),
        *("--follow", "--every", "10ms"),
    )
    stopper.join()

    assert done["archived"] == 50
    assert [run.state for run in records.list()] == ["stopped"]
    assert read_archive(spark, str(tmp_path / "archive")).count() == 50


def stop_after(records: Records, messages: int) -> None:
    """Send what a terminal or an init system sends, once so much is through."""
    tick = threading.Event()
    while sum(run.messages for run in records.list()) < messages:
        tick.wait(0.02)
    os.kill(os.getpid(), signal.SIGTERM)


def test_days_are_those_of_utc(spark: SparkSession) -> None:
    moments = ["2026-01-31 23:59:59.999", "2026-02-01 00:00:00", "1969-12-31 23:00:00"]
    before = spark.conf.get("spark.sql.session.timeZone")
    frame = spark.createDataFrame([(f"{moment}Z",) for moment in moments], "text STRING")

    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        days = dated(frame.selectExpr("CAST(text AS TIMESTAMP) AS created_at")).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))

    assert [str(row.date) for row in days] == ["2026-01-31", "2026-02-01", "1969-12-31"]


def test_an_archive_is_replayed_into_another_queue_once(
    shell: Shell, client: Client, market: Market, queue: str, tmp_path: Path
) -> None:
    archive = str(tmp_path / "archive")
    shell.run(*ARCHIVE, *market.options, "--to", archive)
    source = market.shop.orders
    command = (*REPLAY, "--archive", archive, "--where", f"queue = '{source}'", "--to", queue)

    counted = shell.json(*command, "--dry-run")
    sent = shell.json(*command)
    again = shell.run(*command)

    assert [(row["queue"], row["messages"]) for row in counted] == [(source, 300)]
    assert sent["sent"] == 300
    assert "300 messages were replayed before; use another --name" in again.stdout
    assert content(client, queue) == content(client, source)


def test_messages_of_a_queue_are_sent_again_under_new_ids(
    shell: Shell, client: Client, push: Push, queue: str
) -> None:
    push(20, 2)
    command = (*REPLAY, "--queue", queue, "--where", "offset < 5")

    nothing = shell.json(*command, "--where", "offset > 99", "--rate", "10")
    known = shell.json(*command)
    fresh = shell.json(*command, "--ids", "new")

    assert (nothing["sent"], known["sent"], fresh["sent"]) == (0, 10, 10)
    found = content(client, queue)
    assert [payload for name, offset, payload, *_ in found if name == "p0"][10:] == [
        b'{"n": %d,  "text": "\xc3\xa4"}' % number for number in range(0, 10, 2)
    ]
    assert len(found) == 30


def test_a_replay_with_a_rate_goes_on_where_it_failed(
    shell: Shell,
    client: Client,
    push: Push,
    queue: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was chosen at first is what is sent, whatever was pushed since."""
    push(250, 5)
    original = content(client, queue)
    command = (*REPLAY, "--queue", queue, "--to", f"{queue}-copy", "--rate", "100")
    monkeypatch.setattr(replaying, "SLICE_SECONDS", 1)
    send = Target.send

    def fail_at_the_second(target: Target, messages: DataFrame, version: int) -> int:
        if version == 1:
            raise KeyboardInterrupt
        return send(target, messages, version)

    with monkeypatch.context() as patch:
        patch.setattr(Target, "send", fail_at_the_second)
        shell.run(*command, expect=130)
    assert client.queues.stats(f"{queue}-copy").messages == 100
    push(50, 5)
    rest = shell.json(*command)

    assert rest["sent"] == 150
    assert content(client, f"{queue}-copy") == original


def test_slices_are_sent_not_before_their_time() -> None:
    now, waits = [100.0], list[float]()

    def wait(seconds: float) -> None:
        waits.append(seconds)
        now[0] += seconds

    sent = []
    for number, frame in paced(["a", "b", "c", "d"], 1, clock=lambda: now[0], wait=wait):
        sent.append((number, frame))
        now[0] += 2

    assert sent == [(1, "b"), (2, "c"), (3, "d")]
    assert waits == [3, 3]


def test_slices_are_of_a_size_and_in_the_order_of_pushing(spark: SparkSession) -> None:
    frame = spark.range(10).selectExpr(
        "'q' AS queue",
        "'p' AS partition",
        "9 - id AS offset",
        "timestamp_millis(9 - id) created_at",
    )

    rows = sliced(frame, 4).orderBy("offset").collect()

    assert [row.slice for row in rows] == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
