"""The example of a declarative pipeline runs, and runs again."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from skep import Client, Draft
from tests.support.spark.long_run import long

pytestmark = [pytest.mark.xdist_group("spark"), long, pytest.mark.timeout(900)]

EXAMPLE = Path(__file__).parents[2] / "examples" / "spark_pipeline"


def test_each_run_takes_what_is_new(url: str, client: Client, tmp_path: Path) -> None:
    place = tmp_path / "pipeline"
    shutil.copytree(EXAMPLE, place)
    spec = place / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("/var/lib/skep", str(tmp_path)))
    client.queues.configure("big-orders")
    before = client.queues.stats("big-orders").messages

    for number in (1, 2):
        totals = (500, 1500, 2500)
        drafts = [Draft(b'{"customer": "alice", "total": %d}' % total, "p") for total in totals]
        client.push("orders", drafts)
        run(place, url)

        assert client.queues.stats("big-orders").messages == before + 2 * number


def run(place: Path, url: str) -> None:
    own = {"SKEP_URL": url, "SPARK_CONF_DIR": "conf", "SPARK_LOCAL_IP": "127.0.0.1"}
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = subprocess.run(
        [Path(sys.executable).parent / "spark-pipelines", "run"],
        cwd=place,
        env={**os.environ, **own, **python},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
