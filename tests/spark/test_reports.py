"""What analytics, traces and dead-letters say is what the seed of the shop says."""

import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession, functions as f

from skep import Client
from skep.cli.demo_shop import Order
from skep.pipelines.steps import analytics as steps
from skep.pipelines.steps.dead_letters import error_class
from tests.spark.conftest import Market, messages_in
from tests.support.cli_shell import Shell

pytestmark = pytest.mark.xdist_group("spark")

RUN = ("pipeline", "run")
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
DECLINED = "the card of <text> was declined with code <n>"
SLOW = "no answer from <n> within <n> ms"
NOWHERE = "there is no address <text> for <id>"


def by(name: str, rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row[name]: row for row in rows}


def stands_alone(page: Path) -> bool:
    """Whether a page fetches nothing from anywhere."""
    text = page.read_text().replace("http://www.w3.org/2000/svg", "")
    return not re.search(r"https?://|\bsrc=|\bhref=|@import|url\(", text)


def test_analytics_count_what_is_there(
    spark: SparkSession, shell: Shell, client: Client, market: Market, tmp_path: Path
) -> None:
    paid, shipped = [order for order in market.orders if order.is_paid], market.of("shipped")

    found = shell.json(*RUN, "analytics", *market.options, "--to", str(tmp_path), "--window", "1h")

    queues = by("queue", found["queues"])
    counts = {name: row["messages"] for name, row in queues.items()}
    assert counts == dict(zip(market.queues, (300, len(paid), len(shipped)), strict=True))
    assert sum(row["messages"] for row in found["windows"]) == sum(counts.values())
    sizes = [len(message.payload) for message in messages_in(client, market.shop.orders)]
    orders = queues[market.shop.orders]
    assert (orders["bytes"], orders["largest"]) == (sum(sizes), max(sizes))
    assert min(sizes) <= orders["p50"] <= orders["p95"] <= orders["p99"] <= max(sizes)
    assert {row["partition"] for row in found["hot"]} == {"customer-01"}
    failures = {(row["queue"], row["consumerGroup"]): row for row in found["failures"]}
    billing = failures[market.shop.orders, "billing"]
    assert billing["letters"] == orders["letters"] == 300 - len(paid)
    assert billing["rate"] == pytest.approx((300 - len(paid)) / 300)
    assert failures[market.shop.payments, "shipping"]["letters"] == len(market.of("no address"))
    lags = {row["consumerGroup"]: row["lag"] for row in found["lags"]}
    assert lags == {"billing": 0, "shipping": 0, "reports": 200}
    acked = {row["consumerGroup"]: row["messages"] for row in found["latencies"]}
    completed = len(shipped) + len(market.of("stuck"))
    assert acked == {"billing": len(paid), "shipping": completed, "reports": 100}
    assert sum(row["messages"] for row in found["acks"]) == sum(acked.values())
    for row in found["latencies"]:
        assert 0 < row["p50"] <= row["p95"] <= row["p99"] <= row["most"] < 3600
    assert stands_alone(tmp_path / "report.html")


def test_what_analytics_keep_can_be_merged(
    spark: SparkSession, shell: Shell, market: Market, tmp_path: Path
) -> None:
    shell.run(*RUN, "analytics", "--queue", market.shop.orders, "--to", str(tmp_path))

    (row,) = (
        spark.read.parquet(str(tmp_path / "measured"))
        .selectExpr(
            "kll_sketch_get_n_bigint(kll_merge_agg_bigint(sizes)) AS n", "sum(messages) AS messages"
        )
        .collect()
    )

    acked = spark.read.parquet(str(tmp_path / "latencies")).groupBy("consumer_group")
    latencies = acked.agg(
        f.sum("messages").alias("messages"),
        f.expr("percentile(seconds, 1.0D, messages) = max(seconds)").alias("can_be_merged"),
    )

    assert (row.n, row.messages) == (300, 300)
    paid = sum(order.is_paid for order in market.orders)
    assert set(latencies.collect()) == {("billing", paid, True), ("reports", 100, True)}


def test_latencies_of_minutes_are_merged_into_windows(spark: SparkSession) -> None:
    counted = spark.createDataFrame(
        [
            ("orders", "billing", NOON, 1.0, 90),
            ("orders", "billing", NOON, 2.0, 4),
            ("orders", "billing", NOON + timedelta(minutes=1), 1.0, 3),
            ("orders", "billing", NOON + timedelta(minutes=1), 5.0, 2),
            ("orders", "billing", NOON + timedelta(minutes=9), 9.0, 1),
            ("orders", "reports", NOON, 4.0, 1),
        ],
        "queue STRING, consumer_group STRING, begins_at TIMESTAMP, seconds DOUBLE, messages LONG",
    )

    acked = steps.acked(counted, "5 minutes")

    by_group = steps.latencies(acked).drop("queue").collect()
    by_window = steps.acks(acked).where("consumer_group = 'billing'").collect()
    assert by_group == [
        ("billing", 100, 1.0, 2.0, 5.0, 9.0),
        ("reports", 1, 4.0, 4.0, 4.0, 4.0),
    ]
    assert [(row.messages, row.p50, row.p95, row.p99, row.most) for row in by_window] == [
        (99, 1.0, 2.0, 5.0, 5.0),
        (1, 9.0, 9.0, 9.0, 9.0),
    ]
    begins = spark.createDataFrame([(NOON,), (NOON + timedelta(minutes=5),)], "at TIMESTAMP")
    assert [row.begins_at for row in by_window] == [row.at for row in begins.collect()]


def test_journeys_end_as_the_seed_says(
    spark: SparkSession, shell: Shell, market: Market, tmp_path: Path
) -> None:
    fates = Counter(order.outcome for order in market.orders)

    found = shell.json(*RUN, "traces", *market.options, "--to", str(tmp_path), "--within", "0s")

    assert found["final"] == [market.shop.shipments]
    assert {
        (row["state"], row["lastQueue"]): (row["journeys"], row["withError"])
        for row in found["endings"]
    } == {
        ("complete", market.shop.shipments): (fates["shipped"], 0),
        ("stuck", market.shop.orders): (fates["declined"] + fates["slow bank"],) * 2,
        ("stuck", market.shop.payments): (
            fates["no address"] + fates["stuck"],
            fates["no address"],
        ),
    }
    edges = {(row["fromQueue"], row["toQueue"]): row for row in found["edges"]}
    first = edges[market.shop.orders, market.shop.payments]
    assert first["steps"] == sum(order.is_paid for order in market.orders)
    assert 0 <= first["p50"] <= first["p95"] <= first["p99"] <= first["slowest"]
    stuck = {row.trace_id: row for row in stuck_in(spark, tmp_path)}
    assert set(stuck) == {
        str(order.trace_id) for order in market.orders if order.outcome != "shipped"
    }
    for order in market.of("declined"):
        row = stuck[str(order.trace_id)]
        assert (row.path, row.error) == ([market.shop.orders], order.error)
    page = (tmp_path / "report.html").read_text()
    assert stands_alone(tmp_path / "report.html")
    assert f"{fates['declined'] + fates['slow bank']} stuck here" in page


def stuck_in(spark: SparkSession, path: Path) -> list[Any]:
    return spark.read.parquet(str(path / "journeys")).where("state = 'stuck'").collect()


def test_what_is_still_in_time_is_under_way(
    spark: SparkSession, shell: Shell, market: Market, tmp_path: Path
) -> None:
    command = (*RUN, "traces", *market.options, "--to", str(tmp_path), "--within", "1h")

    found = shell.json(*command, "--final", market.shop.payments)

    states = Counter[str]()
    for row in found["endings"]:
        states[row["state"]] += row["journeys"]
    paid = sum(order.is_paid for order in market.orders)
    assert states == {"complete": paid, "under way": 300 - paid}


def test_dead_letters_fall_into_classes_and_one_is_sent_back(
    spark: SparkSession, shell: Shell, client: Client, market: Market, tmp_path: Path
) -> None:
    letters = (*RUN, "dead-letters", *market.options)
    shop, pushed = market.shop, client.queues.stats(market.shop.payments).pushed
    declined, slow = market.of("declined"), market.of("slow bank")

    found = shell.json(*letters, "--to", str(tmp_path))
    nothing = shell.run(*letters, "--redrive", expect=1, answer="n\n").stderr
    back = shell.json(*letters, "--class", NOWHERE, "--redrive", "--yes")
    left = shell.json(*letters)

    classes = {row["errorClass"]: row for row in found["causes"]}
    lost = market.of("no address")
    assert {name: row["letters"] for name, row in classes.items()} == {
        DECLINED: len(declined),
        SLOW: len(slow),
        NOWHERE: len(lost),
    }
    assert classes[DECLINED]["groups"] == ["billing"]
    assert classes[DECLINED]["partitions"] == customers(declined)
    affected = {(row["queue"], row["partition"]): row["letters"] for row in found["partitions"]}
    first = [order for order in declined + slow if order.customer == "customer-01"]
    assert affected[shop.orders, "customer-01"] == len(first)
    assert "nothing was changed" in nothing
    assert f"Replay {len(declined + slow + lost)} dead letters" in nothing
    assert back["replayed"] == len(lost)
    assert client.queues.stats(shop.payments).pushed == pushed + len(lost)
    assert {row["errorClass"] for row in left["causes"]} == {DECLINED, SLOW}


def customers(orders: list[Order]) -> int:
    return len({order.customer for order in orders})


def test_errors_are_of_one_class_if_only_details_differ(spark: SparkSession) -> None:
    classes = {
        "order 12 of 'bob' failed": "order <n> of <text> failed",
        "order 13 of 'al ice' failed": "order <n> of <text> failed",
        "can't open it, won't try": "can't open it, won't try",
        "at 2026-01-31T10:00:00.123 in 1.5 s": "at <n> in <n> s",
        "id 0f8fad5b-d9cd-469f-a165-70867728950e": "id <id>",
        "commit deadbeef01 at 0x7ffe": "commit <id> at <id>",
        '{"code": 42}\n  next   line': "{<text>: <n>} next line",
        "": "",
    }
    frame = spark.createDataFrame([(error,) for error in classes], "error STRING")

    rows = frame.select("error", error_class(frame.error).alias("found")).collect()

    assert {row.error: row.found for row in rows} == classes
