"""Small files beside what Spark writes, read and made where Spark writes.

That is this machine, or whatever file system a path names to Spark.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, flock
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

from skep.errors import Conflict

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

SINK_LOG = "_spark_metadata"
"""Where Spark keeps which files of a directory belong to which batch."""
_PART = "part-0"


class Files(Protocol):
    def names(self, directory: str) -> list[str]:
        """The names of the files in a directory; none if it does not exist."""
        ...

    def read(self, path: str) -> str | None:
        """The text of a file, or of a directory of parts as Spark writes it; None without one."""
        ...

    def create(self, path: str, text: str) -> None:
        """Write a directory with one part, whole or not at all, unless it exists."""
        ...

    def written(self, directory: str) -> tuple[float, float]:
        """The last batch that streams have written to a directory: at least, and at most."""
        ...

    def lock(self, path: str) -> "AbstractContextManager[None]":
        """Keep other processes out; raises ``Conflict`` if one is in."""
        ...


class LocalFiles:
    def names(self, directory: str) -> list[str]:
        try:
            return os.listdir(directory)
        except FileNotFoundError:
            return []

    def read(self, path: str) -> str | None:
        found = Path(path)
        parts = sorted(found.glob("part-*")) if found.is_dir() else [found]
        texts = [part.read_text().removesuffix("\n") for part in parts if part.exists()]
        return "\n".join(texts) if texts else None

    def create(self, path: str, text: str) -> None:
        fresh = Path(f"{path}-{uuid4().hex}")
        fresh.mkdir(parents=True)
        try:
            (fresh / _PART).write_text(text)
            # A directory that is not empty is never replaced.
            os.rename(fresh, path)
        except OSError:
            shutil.rmtree(fresh)
            if self.read(path) is None:
                raise

    def written(self, directory: str) -> tuple[float, float]:
        last = last_batch(self.names(f"{directory}/{SINK_LOG}"))
        return last, last

    @contextmanager
    def lock(self, path: str) -> Iterator[None]:
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            file = Path(path).open("ab")  # noqa: SIM115
        except OSError as error:
            raise Conflict(f"{path} cannot be made: {error.strerror}") from None
        with file as lock:
            try:
                flock(lock, LOCK_EX | LOCK_NB)
            except BlockingIOError:
                raise Conflict(f"another process holds {path}; wait until it has ended") from None
            yield


class SparkFiles:
    """``session`` is called when Spark is needed, and not before."""

    def __init__(self, session: "Callable[[], SparkSession]") -> None:
        self._session = session

    def names(self, directory: str) -> list[str]:
        with _perhaps_missing():
            found = self._session().read.format("binaryFile").load(f"{directory}/*")
            return [row.path.rpartition("/")[2] for row in found.select("path").collect()]
        return []

    def read(self, path: str) -> str | None:
        with _perhaps_missing():
            rows = self._session().read.text(path).collect()
            return "\n".join(row.value for row in rows) if rows else None
        return None

    def create(self, path: str, text: str) -> None:
        if self.read(path) is None:
            one = self._session().createDataFrame([(text,)], "value STRING").coalesce(1)
            one.write.mode("overwrite").option("lineSep", "\n").text(path)

    def written(self, directory: str) -> tuple[float, float]:
        """Spark hides its log from those who read; a Connect server does so from everybody."""
        jvm = getattr(self._session(), "_jvm", None)
        if jvm is None:
            return (0 if self._has_data(directory) else -1), inf
        path = jvm.org.apache.hadoop.fs.Path(f"{directory}/{SINK_LOG}")
        system = path.getFileSystem(self._session()._jsc.hadoopConfiguration())
        known = system.listStatus(path) if system.exists(path) else ()
        last = last_batch(each.getPath().getName() for each in known)
        return last, last

    def _has_data(self, directory: str) -> bool:
        with _perhaps_missing():
            found = self._session().read.format("binaryFile").load(directory)
            return bool(found.select("path").take(1))
        return False

    @contextmanager
    def lock(self, path: str) -> Iterator[None]:
        """No lock: the log of offsets in a checkpoint fails a second stream that writes to it."""
        yield


@contextmanager
def _perhaps_missing() -> Iterator[None]:
    """Go on behind this where a path does not exist."""
    from pyspark.errors import AnalysisException

    try:
        yield
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise


def last_batch(names: Iterable[str]) -> int:
    """The last batch of one of Spark's logs by the names of its files; -1 if there is none."""
    found = (re.fullmatch(r"(\d+)(\.compact)?", name) for name in names)
    return max((int(each[1]) for each in found if each), default=-1)
