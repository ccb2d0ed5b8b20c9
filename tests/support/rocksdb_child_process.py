"""Other processes that work on a store."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_child(
    what: str, path: Path, *, under: Sequence[str] = (), timeout: float = 60
) -> list[str]:
    """The lines that a child tells until it ends."""
    done = subprocess.run(
        _command(what, path, under), cwd=ROOT, capture_output=True, text=True, timeout=timeout
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout.splitlines()


@contextmanager
def child(what: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    """A child that has told its first line, and is gone afterwards."""
    with subprocess.Popen(
        _command(what, path, ()),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            yield process
        finally:
            process.kill()


def _command(what: str, path: Path, under: Sequence[str]) -> list[str]:
    return [*under, sys.executable, "-m", "tests.support.rocksdb_child", what, str(path)]
