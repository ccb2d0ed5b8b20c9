"""A file system of a few megabytes that can be filled and emptied."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class SmallDisk:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        """Leave no space at all."""
        ballast = os.open(self._ballast, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        with contextlib.suppress(OSError):
            while True:
                os.write(ballast, bytes(4096))
        os.close(ballast)

    def free(self) -> None:
        self._ballast.unlink()


@contextmanager
def small_disk(path: Path, *, megabytes: int = 40) -> Iterator[SmallDisk]:
    """Mount it; skips the test where mounting is not permitted."""
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"a file system cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
