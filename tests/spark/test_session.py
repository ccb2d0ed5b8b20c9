"""A session says what is missing, and says nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

from skep.errors import Unavailable
from skep.spark.session import check_java, java_version


def test_a_missing_java_is_named_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(Unavailable, match=r"Java 17 or newer, and there is none.*openjdk-17"):
        check_java()


def test_an_old_java_is_named_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_292\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(Unavailable, match=r"is 8: .*openjdk-17"):
        check_java()


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_292"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("no words", 0),
    ],
)
def test_the_version_of_java_is_read_from_what_it_says(said: str, version: int) -> None:
    assert java_version(said) == version


def test_spark_is_not_imported_before_it_is_used() -> None:
    program = "import skep, skep.spark, sys; sys.exit('pyspark' in sys.modules)"

    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.xdist_group("killed")
def test_a_session_says_nothing_and_leaves_nothing_behind(tmp_path: Path) -> None:
    program = (
        "from skep.spark import session\n"
        "spark = session('quiet', 'local[1]')\n"
        "spark.sql('create table t (a int) using parquet')\n"
        "spark.sql('insert into t values (1)')\n"
        "spark.sql('drop table t')\n"
        "spark.stop()\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, cwd=tmp_path, check=True
    )

    assert (done.stdout, done.stderr) == (b"", b"")
    assert list(tmp_path.iterdir()) == []
