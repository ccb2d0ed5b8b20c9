"""A Spark session on this machine: quick to start, silent, and leaving nothing behind."""

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from skep.errors import Unavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA = 17
_HOW = (
    "install one, for example with 'apt install openjdk-17-jre-headless' or "
    "'brew install openjdk@17', and put it on PATH or name its directory in JAVA_HOME"
)
_CHECKPOINTS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)


def session(
    app_name: str = "skep", master: str = "local[*]", *, log: Path | None = None, **conf: str
) -> "SparkSession":
    """A session, or the one that this process has already.

    ``conf`` are Spark's own settings: ``session(**{"spark.driver.memory": "2g"})``. What the JVM
    says goes to ``log``, and otherwise nowhere.
    """
    check_java()
    check_pyspark()
    from pyspark.sql import SparkSession

    # Workers would otherwise run whatever python3 is first on PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in (_settings(master) | conf).items():
        builder = builder.config(name, value)
    with _silence(log) as said:
        try:
            return builder.getOrCreate()
        except Exception as error:
            raise Unavailable(f"Spark did not start: {error}\n{_end_of(said)}".strip()) from error


def remote_session(url: str) -> "SparkSession":
    """A session on a Spark Connect server, ``sc://…``: for that there need be no Java here."""
    check_pyspark()
    from pyspark.sql import SparkSession

    try:
        found = SparkSession.builder.remote(url).getOrCreate()
    except ImportError:
        raise Unavailable("pip install 'pyspark[connect]' for Spark Connect first") from None
    except Exception as error:
        raise Unavailable(f"{url} cannot be used: {error}") from error

    import pyspark_skep

    # Its Python may not have the source.
    pyspark_skep.register(found)
    return found


def check_pyspark() -> None:
    """Say what to install if there is no pyspark."""
    if find_spec("pyspark") is None:
        raise Unavailable("pyspark is not installed: pip install 'skep[spark]'")


def check_java() -> None:
    """Say what is wrong with Java before Spark does, which says it badly."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    if java is None:
        raise Unavailable(f"Spark needs Java {JAVA} or newer, and there is none: {_HOW}")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = java_version(said)
    if version < JAVA:
        raise Unavailable(f"Spark needs Java {JAVA} or newer, and {java} is {version}: {_HOW}")


def java_version(said: str) -> int:
    """The version in what ``java -version`` says; before Java 9 it began with ``1.``."""
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else 0


def _settings(master: str) -> dict[str, str]:
    everywhere = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
    return everywhere | _local() if master.startswith("local") else everywhere


def _local() -> dict[str, str]:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Spark would put all this into the working directory.
    room = Path(tempfile.mkdtemp(prefix="skep-spark-"))
    atexit.register(shutil.rmtree, room, ignore_errors=True)
    return {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(room / "warehouse"),
        # A third of the time for a checkpoint; with one driver there is nobody to race with.
        "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,
        "spark.driver.extraJavaOptions": (
            f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dderby.system.home={room}"
        ),
    }


@contextmanager
def _silence(log: Path | None) -> Iterator[Path]:
    """Let a JVM that is started here inherit a file for its words instead of our own."""
    with tempfile.TemporaryDirectory() as directory:
        said = log or Path(directory) / "spark.log"
        sys.stderr.flush()
        ours = os.dup(2)
        with said.open("ab") as file:
            os.dup2(file.fileno(), 2)
        try:
            yield said
        finally:
            os.dup2(ours, 2)
            os.close(ours)


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:]
