"""The examples of the page about Spark run as they are."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from skep import Client, Draft

pytestmark = pytest.mark.xdist_group("drivers")

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()


def test_the_examples_of_the_page_run(url: str, client: Client, tmp_path: Path) -> None:
    client.push("orders", [Draft(b'{"id": "a", "total": %d}' % n, "p") for n in (5, 2000, 3000)])
    client.queues.configure("big-orders")
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    statements = ";".join(re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)).split(";")
    program = [*blocks, *(f"spark.sql({each!r}).show()" for each in statements if each.strip())]
    text = "\n".join(program).replace("/var/lib/skep", str(tmp_path))

    done = subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, "SKEP_URL": url},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("|        p|    3|") == 1
    # With what the statement before it has inserted.
    assert done.stdout.count("|        p|       4|") == 1
    assert client.queues.stats("big-orders").messages == 2
