"""Worker processes that listen on one port, for a store that they can share."""

import logging
import os
import signal
import socket
import time
from collections.abc import Callable
from threading import Thread
from types import FrameType

_log = logging.getLogger("skep.server")

_EARLY_SECONDS = 3
"""A worker that fails this soon after the first start would fail every time."""
_RESTART_SECONDS = 1


def listen(host: str, port: int) -> socket.socket:
    """Return the socket that the workers share."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=4096)


class Supervisor:
    """Starts workers, replaces those that die, and stops all of them at a signal."""

    def __init__(self, listening: socket.socket, size: int, work: Callable[[bool], None]) -> None:
        """``work`` is called with whether it is the first worker."""
        self._listening = listening
        self._size = size
        self._work = work
        self._workers: set[int] = set()
        # Never written to: it closes when this process ends, in whatever way.
        self._parent_read, self._parent_write = os.pipe()
        self._stopping = False
        self._code = 0

    def run(self) -> int:
        """Run until all workers have ended; return the exit code."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)
        started = time.monotonic()
        for index in range(self._size):
            self._start(is_first=index == 0)
        while self._workers:
            worker, status = os.wait()
            self._workers.discard(worker)
            if not self._stopping:
                self._replace(worker, status, early=time.monotonic() - started < _EARLY_SECONDS)
        return self._code

    def _start(self, *, is_first: bool) -> None:
        worker = os.fork()
        if worker:
            self._workers.add(worker)
            return
        code = 1
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            os.close(self._parent_write)
            Thread(target=self._end_with_parent, daemon=True).start()
            self._work(is_first)
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        finally:
            os._exit(code)

    def _end_with_parent(self) -> None:
        """Stop this worker when the supervisor has ended: otherwise it would keep the port."""
        os.read(self._parent_read, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    def _replace(self, worker: int, status: int, *, early: bool) -> None:
        code = os.waitstatus_to_exitcode(status)
        if early and code > 0:
            self._code = code
            self._stop(signal.SIGTERM, None)
            return
        _log.error("worker died, restarting: pid=%d code=%d", worker, code)
        time.sleep(_RESTART_SECONDS)
        if not self._stopping:
            self._start(is_first=False)

    def _stop(self, number: int, _: FrameType | None) -> None:
        self._stopping = True
        # The workers close it, too, and new connections are then refused. While it was open here,
        # clients could connect and would wait for a response that never comes.
        self._listening.close()
        for worker in self._workers:
            os.kill(worker, number)
