"""Spark Connect: the client is far away, and the source is in the server's Python."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from skep import Client
from tests.spark.conftest import Push
from tests.support.cli_shell import Shell
from tests.support.spark.long_run import long

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


# The server's Python removes the directory of the package from its path.
HIDE = """
import os, sys
sys.path[:] = [path for path in sys.path if not os.path.isdir(os.path.join(path, "pyspark_skep"))]
"""

WITHOUT_PACKAGE = """
import os, sys
from importlib.util import find_spec
import pyspark_skep
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

url, queue, checkpoint, python = sys.argv[1:]
os.environ["PYSPARK_PYTHON"] = python
spark = SparkSession.builder.remote("local[2]").getOrCreate()
has_package = udf(lambda number: find_spec("pyspark_skep") is not None, "boolean")
print("installed", spark.range(1).select(has_package("id")).first()[0])
try:
    spark.read.format("skep").options(url=url, queue=queue).load().count()
except Exception as error:
    print("unregistered", "DATA_SOURCE_NOT_FOUND" in str(error))

pyspark_skep.register(spark)

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


def test_a_connect_server_whose_python_lacks_the_package_has_it_from_register(
    url: str, client: Client, queue: str, push: Push, checkpoint: str, tmp_path: Path
) -> None:
    push(100, 3)
    for name in ("few", "copy"):
        client.queues.configure(f"{queue}-{name}")
    (tmp_path / "sitecustomize.py").write_text(HIDE)
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="{tmp_path}:$PYTHONPATH" exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)

    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PACKAGE, url, queue, checkpoint, str(python)],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "installed False\nunregistered True\nread 100\n" in done.stdout
    assert client.queues.stats(f"{queue}-few").messages == 3
    assert client.queues.stats(f"{queue}-copy").messages == 100


def test_an_archive_through_a_connect_server_is_marked_and_read_back(
    url: str, queue: str, push: Push, tmp_path: Path
) -> None:
    """Its files are only reached through the server's Spark."""
    push(3)
    push(2, to=f"{queue}-other")
    here = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    shell = Shell(url, XDG_DATA_HOME=str(tmp_path / "home"), **here)
    to = tmp_path / "archive"
    command = ("pipeline", "run", "archive", "--to", str(to), "--remote", "local[2]", "--queue")

    first = shell.pipe(b"", *command, queue)
    assert first[0] == 0, first[2]
    other = shell.pipe(b"", *command, f"{queue}-other")
    push(1)
    second = shell.pipe(b"", *command, queue, "--remove-after", "1h")
    shutil.rmtree(to / "_skep/checkpoint")
    lost = shell.pipe(b"", *command, queue)

    assert [each[0] for each in (other, second, lost)] == [1, 0, 1]
    assert "4 in all" in second[1]
    assert "differs in queues" in other[2]
    assert "is lost, or older than it" in lost[2]
