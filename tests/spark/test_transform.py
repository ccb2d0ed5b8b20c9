"""Queues made of queues: by SQL and by the functions that docs/how-to/pipelines.md shows."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from skep import Client, Draft
from skep.errors import Invalid
from skep.pipelines.steps.transform import inferred, to_ddl, to_messages, with_data
from skep.pipelines.transform import load_step
from tests.spark.conftest import Market, messages_in, own_run
from tests.support.cli_shell import Shell

pytestmark = pytest.mark.xdist_group("spark")

PAGE = Path(__file__).parents[2] / "docs/how-to/pipelines.md"
SCHEMA = "order BIGINT, customer STRING, total DOUBLE"
TRANSFORM = ("pipeline", "run", "transform", "--schema", SCHEMA)


@pytest.fixture
def recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with the functions of the page, in the directory where commands are typed."""
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    name = f"recipes_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(block)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def over(queue: str, statement: str) -> str:
    """A statement about a queue."""
    return statement.replace("QUEUE", f"`{queue}`")


def values(client: Client, queue: str) -> list[Any]:
    return [message.json() for message in messages_in(client, queue)]


def test_a_statement_makes_a_queue_and_goes_on_with_what_is_new(
    spark: SparkSession, shell: Shell, client: Client, queue: str
) -> None:
    client.push(queue, [Draft.json({"order": n, "total": n * 1.5}, f"p{n % 3}") for n in range(90)])
    command = (
        *(*TRANSFORM, "--queue", queue, "--to-queue", f"{queue}-big"),
        *(
            "--sql",
            over(
                queue, "SELECT partition, data.order, data.total * 2 t FROM QUEUE WHERE offset > 9"
            ),
        ),
    )

    shell.run(*command)
    client.push(queue, [Draft.json({"order": 90, "total": 1}, "p0")])
    again = shell.json(*command)

    assert (again["read"], again["readInAll"]) == (1, 91)
    found = [(each.partition, each.json()) for each in messages_in(client, f"{queue}-big")]
    assert sorted(found, key=lambda each: each[1]["order"]) == [
        (f"p{n % 3}", {"order": n, "t": n * 3.0}) for n in range(30, 90)
    ] + [("p0", {"order": 90, "t": 2.0})]


def test_windows_are_counted_when_the_watermark_has_passed_them(
    spark: SparkSession, shell: Shell, client: Client, queue: str
) -> None:
    client.push(queue, [Draft.json({"at": second}) for second in range(0, 300, 10)])
    statement = """
        SELECT unix_seconds(window(at, '1 minute').start) AS minute, count(*) AS messages
        FROM (SELECT CAST(data.at AS TIMESTAMP) AS at FROM QUEUE)
             WATERMARK at DELAY OF INTERVAL 30 SECONDS
        GROUP BY window(at, '1 minute')
    """

    shell.run(
        *("pipeline", "run", "transform", "--schema", "at BIGINT", "--queue", queue),
        *("--sql", over(queue, statement), "--to-queue", f"{queue}-minutes"),
    )

    found = values(client, f"{queue}-minutes")
    assert sorted(found, key=lambda each: each["minute"]) == [
        {"minute": minute, "messages": 6} for minute in (0, 60, 120, 180)
    ]


def test_two_queues_are_joined(
    spark: SparkSession, shell: Shell, client: Client, market: Market, recipes: str, queue: str
) -> None:
    shell.run(
        *(*TRANSFORM, "--queue", market.shop.orders, "--queue", market.shop.payments),
        *("--function", f"{recipes}:paid", "--to-queue", queue),
    )

    found = {(each["order"], each["total"]) for each in values(client, queue)}
    assert found == {(order.number, order.total) for order in market.orders if order.is_paid}
    assert len(values(client, queue)) == len(found)
    run = own_run(shell)
    assert (run["state"], run["lag"], run["messages"]) == ("done", 0, 300 + len(found))


def test_duplicates_are_dropped(
    spark: SparkSession, shell: Shell, client: Client, market: Market, recipes: str, queue: str
) -> None:
    shell.run(
        *(*TRANSFORM, "--queue", market.shop.orders),
        *("--function", f"{recipes}:first_orders", "--to-queue", queue),
    )

    found = [value["customer"] for value in values(client, queue)]
    assert sorted(found) == sorted({order.customer for order in market.orders})


def test_a_state_limits_what_passes(
    spark: SparkSession, shell: Shell, client: Client, market: Market, recipes: str, queue: str
) -> None:
    minutes = Counter(
        (each.partition, int(each.created_at.timestamp()) // 60)
        for each in messages_in(client, market.shop.orders)
    )

    shell.run(
        *(*TRANSFORM, "--queue", market.shop.orders),
        *("--function", f"{recipes}:limited", "--to-queue", queue),
    )

    assert client.queues.stats(queue).messages == sum(min(5, n) for n in minutes.values())


def test_a_shape_is_inferred_and_kept(
    spark: SparkSession, shell: Shell, client: Client, queue: str, tmp_path: Path
) -> None:
    client.push(queue, [Draft.json({"name": "a", "price": 1.5, "tags": ["x"], "none": None})])
    command = (
        *("pipeline", "run", "transform", "--schema", "infer", "--queue", queue),
        *("--sql", over(queue, "SELECT data.* FROM QUEUE"), "--to", str(tmp_path / "files")),
    )

    shell.run(*command)
    client.push(queue, [Draft.json({"name": "b", "price": 1234.5678, "more": 1}), Draft(b"text")])
    shell.run(*command)

    found = spark.read.parquet(str(tmp_path / "files")).orderBy("name")
    assert dict(found.dtypes) == {
        "name": "string",
        "none": "string",
        "price": "double",
        "tags": "array<string>",
    }
    assert [(row.name, row.price, row.tags) for row in found.collect()] == [
        (None, None, None),
        ("a", 1.5, ["x"]),
        ("b", 1234.5678, None),
    ]


def test_payloads_are_variants_if_that_is_asked_for(spark: SparkSession) -> None:
    payloads = ['{"a": {"b": 7}}', "no json", '{"a": 1}']
    frame = spark.createDataFrame([(each,) for each in payloads], "payload STRING")

    rows = with_data(frame, "variant").selectExpr("data:a.b::int AS b").collect()

    assert [row.b for row in rows] == [7, None, None]
    with pytest.raises(Invalid, match="cannot be inferred"):
        inferred(frame.where("payload = 'no json'"))


@pytest.mark.parametrize(
    ("shape", "ddl"),
    [
        ("OBJECT<a: DECIMAL(3,1), b: VOID>", "STRUCT<a: DOUBLE, b: STRING>"),
        ("OBJECT<a: ARRAY<OBJECT<b: BIGINT>>>", "STRUCT<a: ARRAY<STRUCT<b: BIGINT>>>"),
    ],
)
def test_the_shape_of_some_payloads_suits_others(shape: str, ddl: str) -> None:
    assert to_ddl(shape) == ddl


def test_rows_without_a_payload_become_json(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 'p' AS partition, 1 AS n, 'x' AS text")

    assert to_messages(frame).collect() == [("p", '{"n":1,"text":"x"}')]
    with pytest.raises(Invalid, match="must give a column payload"):
        to_messages(frame.select("partition"))


@pytest.mark.parametrize("place", ["no_such_module:f", "json:no_such_function", "json", ""])
def test_a_function_that_is_not_there_is_named(place: str) -> None:
    with pytest.raises(Invalid, match="must be module:function"):
        load_step(place)
