"""The examples of the page about Spark run as they are."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from skep import Client, Draft

pytestmark = pytest.mark.xdist_group("spark")

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()


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
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    statements = ";".join(re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)).split(";")
    program = [*blocks, *(f"spark.sql({each!r}).show()" for each in statements if each.strip())]
    text = "\n".join(program).replace("/var/lib/skep", str(tmp_path))

    exec(text, {})

    shown = capsys.readouterr().out
    assert shown.count("|        p|    3|") == 1
    # With what the statement before it has inserted.
    assert shown.count("|        p|       4|") == 1
    assert client.queues.stats("big-orders").messages == 2
    spark.sql("DROP TABLE orders")
