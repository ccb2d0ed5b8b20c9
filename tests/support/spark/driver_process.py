"""A Spark driver in a process of its own, that can be killed together with its JVM."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyspark

from tests.support.spark.copy_driver import Copy

ROOT = Path(__file__).parents[3]
ENDING_SECONDS = 240


class Driver:
    def __init__(self, asked: Copy) -> None:
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.support.spark.copy_driver",
                msgspec.json.encode(asked).decode(),
            ],
            cwd=ROOT,
            env=os.environ | {"SPARK_HOME": str(_home(Path(f"{asked.checkpoint}.home")))},
            # Not Spark's words, which are in the log beside the checkpoint.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # So that the JVM, and those that it starts, can be killed with it.
            start_new_session=True,
        )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait(self, seconds: float = ENDING_SECONDS) -> int | None:
        """How it ended; None if it has not."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """Kill the driver at once. Python workers find out by themselves, as on other machines."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def workers(self) -> list[int]:
        """The Python processes in which tasks run, and the JVMs of executors, if there are any."""
        below = list(_below(self._process.pid))
        return [pid for pid, parent, words in below if _runs_tasks(words, parent)]


def _home(place: Path) -> Path:
    """Spark as it is installed, but for the place where its clusters put what they need."""
    place.mkdir(exist_ok=True)
    (found,) = pyspark.__path__
    for name in ("bin", "jars", "python"):
        if not (place / name).exists():
            (place / name).symlink_to(Path(found, name))
    return place


def _runs_tasks(words: str, parent: str) -> bool:
    # A worker is a fork of a daemon with the same words.
    is_fork = "pyspark.daemon" in words and "pyspark.daemon" in parent
    is_worker = is_fork and words.rstrip("\0").endswith("pyspark.worker")
    return is_worker or "CoarseGrainedExecutorBackend" in words


def _below(pid: int) -> Iterator[tuple[int, str, str]]:
    """The processes below one, each with its parent's words and its own."""
    words = _read(f"/proc/{pid}/cmdline")
    for child in _children(pid):
        yield child, words, _read(f"/proc/{child}/cmdline")
        yield from _below(child)


def _children(pid: int) -> Iterator[int]:
    # Any thread of a JVM may have started one.
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except FileNotFoundError:
        return
    for thread in threads:
        yield from map(int, _read(f"/proc/{pid}/task/{thread}/children").split())


def _read(path: str) -> str:
    """Nothing for a process that has just ended."""
    try:
        return Path(path).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
