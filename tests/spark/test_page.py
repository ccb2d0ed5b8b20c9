"""The examples of the pages about Spark run as they are."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from skep import Client, Draft
from tests.docs.pages import SPARK_PAGES, blocks

pytestmark = pytest.mark.xdist_group("spark")


def test_the_examples_of_the_page_run(
    spark: SparkSession,
    url: str,
    client: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SKEP_URL", url)
    # A view that another test left in the session would be found instead of the table.
    spark.catalog.dropTempView("orders")
    client.push("orders", [Draft(b'{"id": "a", "total": %d}' % n, "p") for n in (5, 2000, 3000)])
    client.queues.configure("big-orders")
    python = [block for page in SPARK_PAGES for block in blocks(page, "python") if "spark" in block]
    sql = ";".join(block for page in SPARK_PAGES for block in blocks(page, "sql")).split(";")
    program = [*python, *(f"spark.sql({each!r}).show()" for each in sql if each.strip())]
    text = "\n".join(program).replace("/var/lib/skep", str(tmp_path))

    exec(text, {})

    shown = capsys.readouterr().out
    assert shown.count("|        p|    3|") == 1
    # With what the statement before it has inserted.
    assert shown.count("|        p|       4|") == 1
    assert client.queues.stats("big-orders").messages == 2
    spark.sql("DROP TABLE orders")
