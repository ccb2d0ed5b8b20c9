"""A suite that has never been seen red proves nothing: break the queue, and it goes red."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation.mutations import MUTATIONS, Mutation

ROOT = Path(__file__).parents[2]
TESTS_FAILED = 1


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A copy of the source that may be broken."""
    return shutil.copytree(
        ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__")
    )


def run(tests: list[str], source: Path) -> subprocess.CompletedProcess[str]:
    options = ["-x", "-q", "-p", "no:cacheprovider", "-o", "timeout=60"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(source), "SKEP_SHRINK": "no"},
        capture_output=True,
        text=True,
    )


def apply(mutation: Mutation, source: Path) -> None:
    for change in mutation.changes:
        file = source / "skep" / change.file
        text = file.read_text()
        assert text.count(change.old) == 1, f"{change.file} does not read {change.old!r} once"
        file.write_text(text.replace(change.old, change.new))


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_queue_that_is_broken_is_noticed(mutation: Mutation, source: Path) -> None:
    apply(mutation, source)

    done = run([mutation.noticed_by], source)

    assert done.returncode == TESTS_FAILED, done.stdout + done.stderr


def test_a_queue_that_is_whole_is_not_complained_about(source: Path) -> None:
    done = run(sorted({mutation.noticed_by for mutation in MUTATIONS}), source)

    assert done.returncode == 0, done.stdout + done.stderr
