"""Options: all are known, checked before anything is done, and named when they are wrong."""

import pickle
import re
from dataclasses import fields
from pathlib import Path

import pytest
from pyspark.sql.types import DataType, MapType, StringType, StructType

from pyspark_skep import DefaultSource, InvalidColumns, InvalidOption
from pyspark_skep.column import JOURNAL_COLUMNS, MESSAGE_COLUMNS, project
from pyspark_skep.http_client import HttpClient
from pyspark_skep.options import Options, check_reading, check_writing, parse_options
from pyspark_skep.reader import BatchReader

URL = {"url": "http://127.0.0.1:1"}


def source(**options: str) -> DefaultSource:
    return DefaultSource({**URL, **options})


def frame(**columns: str | DataType) -> StructType:
    schema = StructType()
    for name, kind in columns.items():
        schema = schema.add(name, kind)
    return schema


def test_names_are_taken_in_any_case() -> None:
    assert parse_options({**URL, "STARTINGoffsets": "Latest"}).starting_offsets == "latest"


def test_a_name_that_is_not_known_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(InvalidOption, match=r"'startingOffset' is unknown.*'startingOffsets'"):
        parse_options({**URL, "startingOffset": "latest"})


@pytest.mark.parametrize(
    "key", ["path", "checkpointLocation", "queryName", "owner", "provider", "option.queue"]
)
def test_what_spark_adds_by_itself_is_let_through(key: str) -> None:
    parse_options({**URL, key: "x"})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("url", "ftp://here"),
        ("url", "http://user:word@here"),
        ("tokenFile", "/does/not/exist"),
        ("tokenEnv", "SKEP_TEST_NOT_SET"),
        ("queue", "a,,b"),
        ("queue", "[1]"),
        ("queue", "[a]"),
        ("queuePattern", "("),
        ("startingOffsets", "first"),
        ("startingOffsets", '{"orders": 1}'),
        ("startingTimestamp", "yesterday"),
        ("maxOffsetsPerTrigger", "0"),
        ("maxOffsetsPerTrigger", "-1"),
        ("maxTriggerDelay", "15 years"),
        ("preserveOrder", "yes"),
        ("view", "everything"),
        ("payloadFormat", "json"),
        ("guarantee", "maybe"),
        ("txnVersion", "one"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_the_name_of_its_option(
    name: str, text: str
) -> None:
    with pytest.raises(InvalidOption, match=f"^option '{name}' "):
        parse_options({**URL, name: text})


def test_values_are_read_as_people_write_them() -> None:
    options = parse_options(
        {
            **URL,
            "queue": " b, a ",
            "partitions": '["x,y"]',
            "startingTimestamp": "1970-01-01T00:00:01",
            "endingTimestamp": "2000",
            "maxTriggerDelay": "15m",
            "pollTimeout": "250",
        }
    )

    assert options.queue == ("a", "b")
    assert options.partitions == ("x,y",)
    assert (options.starting_timestamp, options.ending_timestamp) == (1000, 2000)
    assert (options.max_trigger_delay, options.poll_timeout) == (900_000, 250)


def test_the_environment_names_the_server_and_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKEP_URL", "http://there:1")
    monkeypatch.setenv("SKEP_TOKEN", "word")

    options = parse_options({})

    assert (options.url, options.secret()) == ("http://there:1", "word")


def test_a_token_in_a_file_is_read_when_it_is_used(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old\n")
    options = parse_options({**URL, "tokenFile": str(file)})
    file.write_text("new\n")

    assert options.secret() == "new"
    assert b"old" not in pickle.dumps(options)


def test_a_token_that_is_not_where_a_task_runs_is_named(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("word")
    options = parse_options({**URL, "tokenFile": str(tmp_path / "token")})
    (tmp_path / "token").unlink()

    with pytest.raises(InvalidOption, match=r"tokenFile.*not a file on this machine"):
        HttpClient(options).request_json("GET", "/")


def test_a_token_is_not_shown() -> None:
    assert "word" not in repr(parse_options({**URL, "token": "word"}))


@pytest.mark.parametrize(
    ("given", "stream", "field"),
    [
        ({}, False, "queue"),
        ({"queue": "a", "queuePattern": "b"}, False, "queue"),
        ({"queue": "a", "startingOffsets": "latest", "startingTimestamp": "1"}, False, "starting"),
        ({"queue": "a", "endingOffsets": "latest"}, True, "endingOffsets"),
        ({"view": "stats"}, True, "view"),
        ({"view": "stats", "partitions": "a"}, False, "partitions"),
    ],
)
def test_a_reader_that_says_nothing_or_two_things_is_refused(
    given: dict[str, str], stream: bool, field: str
) -> None:
    with pytest.raises(InvalidOption, match=field):
        check_reading(parse_options({**URL, **given}), stream=stream)


def test_a_stream_without_a_group_has_always_the_same_for_what_it_reads() -> None:
    def group(**given: str) -> str:
        return parse_options({**URL, **given}).group

    assert group(queue="a,b") == group(queue="b,a", url="http://there:1", batchRows="7")
    others = {group(queue="a"), group(queuePattern="a"), group(queue="a", partitions="p")}
    assert len(others | {group(queue="a,b")}) == 4
    assert group(queue="a", consumerGroup="mine") == "mine"


def test_overwriting_a_queue_is_refused() -> None:
    with pytest.raises(InvalidOption, match="append"):
        check_writing(parse_options(URL), overwrite=True, stream=False)


def test_an_application_and_its_version_go_together() -> None:
    with pytest.raises(InvalidOption, match="txnVersion"):
        source(queue="a", txnAppId="x").writer(frame(payload="string"), False)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"payload": frame(a="integer")}, "to_json"),
        ({"payload": MapType(StringType(), StringType())}, "to_json"),
        ({"payload": "integer"}, "to_json"),
        ({"partition": "string"}, "column payload"),
        ({"payload": "string", "total": "integer"}, "no column total"),
        ({"payload": "string", "partition": "integer"}, "partition must be a string"),
    ],
)
def test_a_frame_that_is_not_one_of_messages_is_refused(
    columns: dict[str, str | DataType], words: str
) -> None:
    with pytest.raises(InvalidColumns, match=words):
        source(queue="a").writer(frame(**columns), False)


def test_writing_needs_a_queue_from_somewhere() -> None:
    with pytest.raises(InvalidOption, match="queue"):
        source().writer(frame(payload="string"), False)

    source().writer(frame(payload="string", queue="string"), False)


def test_writing_idempotently_needs_transaction_ids() -> None:
    with pytest.raises(InvalidColumns, match="transaction_id"):
        source(queue="a", guarantee="idempotent").writer(frame(payload="string"), False)

    source(queue="a", guarantee="idempotent", transactionId="id").writer(
        frame(payload="string", id="string"), False
    )


def test_a_schema_chooses_columns_and_cannot_invent_any() -> None:
    options = parse_options(URL)
    some = frame(offset="long", lane="integer", payload="string")

    assert [column.name for column in project(options, some)] == ["offset", "lane", "payload"]
    with pytest.raises(InvalidColumns, match="'total'"):
        project(options, frame(total="integer"))
    with pytest.raises(InvalidColumns, match="payloadFormat"):
        project(options, frame(payload="binary"))


def test_every_option_and_every_column_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/spark-options.md").read_text()

    for each in fields(Options):
        name = re.sub("_([a-z])", lambda found: found[1].upper(), each.name)
        assert f"`{name}`" in page, name
    for column in (*MESSAGE_COLUMNS, *JOURNAL_COLUMNS):
        assert f"`{column.name}`" in page, column.name


def test_filters_are_not_pushed_down() -> None:
    """Spark 4.3 reuses the filtered plan for the same DataFrame without the filter."""
    assert "pushFilters" not in vars(BatchReader)
