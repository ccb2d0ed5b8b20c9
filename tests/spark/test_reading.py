"""A task reads every message of its split once, however the connection fares."""

import logging
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition

from pyspark_skep import DataLost, Interrupted, RequestRejected, http_client, reader
from pyspark_skep.column import SourceColumn, to_arrow
from pyspark_skep.http_client import ATTEMPTS, HttpClient
from pyspark_skep.options import Options
from pyspark_skep.plan import Split
from pyspark_skep.position import LaneSlice
from pyspark_skep.reader import conform, read_split
from tests.support.spark.flaky_journal_server import Flaky, flaky

SLICES = (LaneSlice("a", 1, 0, 0, 45), LaneSlice("a", 1, 3, 7, 20), LaneSlice("b", 2, 0, 0, 5))
ALL = [f"{part.lane}/{k}" for part in SLICES for k in range(part.start, part.end)]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (http_client, reader):
        monkeypatch.setattr(module, "retry_delay", lambda *_: 0.0)


def read(server: Flaky, **chosen: Any) -> list[str]:
    options = Options(server.url, **chosen)
    found = read_split(options, (SourceColumn("payload"),), Split(SLICES))
    return [value for batch in found for value in batch.column(0).to_pylist()]


def test_a_split_is_one_request_for_each_queue() -> None:
    with flaky() as server:
        assert read(server) == ALL
    assert [(each["queue"], each["ranges"]) for each in server.asked] == [
        ("a", [[0, 0, 45], [3, 7, 20]]),
        ("b", [[0, 0, 5]]),
    ]


@pytest.mark.parametrize("fault", ["cut", "end", "503", "429", "error"])
def test_what_breaks_off_is_resumed_where_it_was(fault: str) -> None:
    with flaky(fault, fault) as server:
        assert read(server) == ALL
    assert len(server.asked) == 4


def test_a_server_that_does_not_come_back_is_given_up() -> None:
    with flaky(*["503"] * 20) as server, pytest.raises(Interrupted, match="not now"):
        read(server)
    assert len(server.asked) == ATTEMPTS


def test_an_answer_that_is_always_cut_off_makes_progress_nevertheless() -> None:
    with flaky(*["end"] * (ATTEMPTS + 2)) as server:
        options = Options(server.url)
        split = Split((LaneSlice("a", 1, 0, 0, 200),))
        found = read_split(options, (SourceColumn("payload"),), split)
        assert sum(batch.num_rows for batch in found) == 200


def test_a_refusal_is_not_repeated() -> None:
    with flaky("403") as server, pytest.raises(RequestRejected, match="not now"):
        read(server)
    assert len(server.asked) == 1


def test_a_refusal_in_the_middle_of_an_answer_is_not_repeated() -> None:
    with (
        flaky("refusal") as server,
        pytest.raises(RequestRejected, match="there is no key") as refused,
    ):
        read(server)
    assert (len(server.asked), refused.value.status) == (1, 409)


def test_removed_messages_are_named() -> None:
    with (
        flaky(missing=[[0, 3, 9]]) as server,
        pytest.raises(DataLost, match=r"messages 3 to 8 of lane 0 of queue 'a'.*failOnDataLoss"),
    ):
        read(server)


def test_removed_messages_can_be_skipped(caplog: pytest.LogCaptureFixture) -> None:
    with flaky(missing=[[0, 3, 9]]) as server, caplog.at_level(logging.WARNING):
        assert read(server, fail_on_data_loss=False) == ALL
    assert "skipped removed messages: queue='a' messages=6" in caplog.text


def test_a_missing_queue_can_be_skipped() -> None:
    with flaky("404") as server:
        assert read(server, fail_on_data_loss=False) == ALL[-5:]
    with flaky("404") as server, pytest.raises(RequestRejected):
        read(server)


def test_the_partition_that_spark_makes_up_has_nothing_in_it() -> None:
    assert list(read_split(Options("http://127.0.0.1:1"), (), InputPartition(None))) == []


def test_a_question_is_asked_again_when_the_server_is_away() -> None:
    with flaky("503", "502") as server:
        assert HttpClient(Options(server.url)).request_json("POST", "/x", {"a": 1}) == {
            "body": {"a": 1}
        }
    assert len(server.asked) == 3


def test_every_batch_has_exactly_the_types_that_spark_expects() -> None:
    """Spark looks at the first batch of a task only, and misreads the others."""
    schema = to_arrow(
        (SourceColumn("payload"), SourceColumn("created_at", "timestamp", nullable=False))
    )
    other = pa.schema([("payload", pa.large_string()), ("created_at", pa.timestamp("ns", "UTC"))])

    batch = conform(pa.RecordBatch.from_pylist([{"payload": "x", "created_at": 0}], other), schema)

    assert batch.schema.equals(schema)
