"""A real server in a process of its own, that can be stopped and killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

ENDING_SECONDS = 30


class ServerProcess:
    """``skep serve`` on a free port over a directory; the same port again after a restart."""

    def __init__(self, store: Path | str, *arguments: str, **settings: str) -> None:
        self._store = store
        self._arguments = arguments
        self._settings = settings
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, and come back when it listens."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SKEP_")}
        port = self.url.rpartition(":")[2] or "0"
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "skep", "serve"),
                *("--store", str(self._store), "--port", port, *self._arguments),
            ],
            stdout=subprocess.PIPE,
            text=True,
            env=environment | {"SKEP_LOG_LEVEL": "warning"} | self._settings,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert "listens on" in line, "the server did not start; its own words are above"
        self.url = line.split()[-1]

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and wait for the end."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(number)
        code = self._process.wait(ENDING_SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code

    def wait(self) -> int:
        """Wait until it ends by itself."""
        assert self._process is not None
        return self._process.wait(ENDING_SECONDS)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end(signal.SIGKILL)
