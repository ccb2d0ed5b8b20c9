"""Processes that a test starts, and ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[3]
PATIENCE = 60.0


def command(module: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", f"tests.support.faults.{module}", *map(str, arguments)]


def run(module: str, *arguments: object) -> None:
    """Run to the end, which must be a good one."""
    done = subprocess.run(
        command(module, *arguments), cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE * 3
    )
    assert done.returncode == 0, done.stderr


@contextmanager
def running(module: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A process that is killed in the end, unless it was before. It must not end by itself."""
    with subprocess.Popen(
        command(module, *arguments), cwd=ROOT, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            ended = process.poll()
            if ended is None:
                os.kill(process.pid, signal.SIGKILL)
            assert process.stderr is not None
            complaint = process.stderr.read()
        assert ended is None, complaint


def wait_for_size(path: Path, size: int, process: subprocess.Popen[str]) -> float:
    """Wait until a file has grown to ``size``; return how long that took, in seconds."""
    start = time.monotonic()
    while not (path.exists() and path.stat().st_size >= size):
        assert process.poll() is None, "the process ended by itself"
        assert time.monotonic() - start < PATIENCE, f"{path} does not grow"
        time.sleep(0.005)
    return time.monotonic() - start
