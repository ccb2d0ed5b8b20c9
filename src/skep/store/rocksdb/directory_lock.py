"""A lock that one process has on a directory; a second one is told the owner."""

import fcntl
import os
import socket
from pathlib import Path

from skep.errors import StoreLocked


class DirectoryLock:
    """Held until ``release``, or until the process ends for any reason."""

    def __init__(self, directory: Path) -> None:
        self._file = os.open(directory / "OWNER", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._file, 200, 0).decode(errors="replace").strip()
            os.close(self._file)
            raise StoreLocked(str(directory), holder or "another process") from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)

    def release(self) -> None:
        os.ftruncate(self._file, 0)
        os.close(self._file)
