"""Spark Connect: the client is far away, and the source is in the server's Python."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from skep import Client
from tests.spark.conftest import Push
from tests.spark.long import long

pytestmark = [pytest.mark.xdist_group("spark"), long]

# In a process of its own: one that has a session cannot have another kind of session.
PROGRAM = """
import os, sys
from pyspark.sql import SparkSession

url, queue, checkpoint = sys.argv[1:]
os.environ["PYSPARK_PYTHON"] = sys.executable
spark = SparkSession.builder.remote("local[2]").getOrCreate()
assert type(spark).__module__.startswith("pyspark.sql.connect"), type(spark)

messages = spark.read.format("skep").options(url=url, queue=queue).load()
print("read", messages.count())
few = messages.limit(3).select("partition", "payload")
few.write.format("skep").mode("append").options(url=url, queue=f"{queue}-few").save()

stream = spark.readStream.format("skep").options(url=url, queue=queue, startingOffsets="earliest")
copy = stream.load().select("partition", "payload").writeStream.format("skep")
copy = copy.options(url=url, queue=f"{queue}-copy", checkpointLocation=checkpoint)
copy.trigger(availableNow=True).start().awaitTermination()
spark.stop()
"""


def test_batches_and_streams_go_through_a_connect_server(
    url: str, client: Client, queue: str, push: Push, checkpoint: str, tmp_path: Path
) -> None:
    push(100, 3)
    for name in ("few", "copy"):
        client.queues.configure(f"{queue}-{name}")

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, url, queue, checkpoint],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "read 100" in done.stdout
    assert client.queues.stats(f"{queue}-few").messages == 3
    assert client.queues.stats(f"{queue}-copy").messages == 100
