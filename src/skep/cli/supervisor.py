"""Several processes that listen on one port: one core each, for a store that they can share."""

import logging
import os
import signal
import socket
import time
from collections.abc import Callable
from threading import Thread
from types import FrameType

_log = logging.getLogger("skep.workers")

_EARLY_SECONDS = 3
"""One that gives up so soon after the first start would do so every time."""
_PAUSE_SECONDS = 1


def listen(host: str, port: int) -> socket.socket:
    """The socket that they share."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=4096)


class Crew:
    """Starts workers, starts another for each that dies, and ends them all at a signal."""

    def __init__(self, listening: socket.socket, size: int, work: Callable[[bool], None]) -> None:
        """``work`` is told whether it is the first."""
        self._listening = listening
        self._size = size
        self._work = work
        self._workers: set[int] = set()
        # Nothing is ever written to it: it ends when we do, however that comes.
        self._watched, self._life = os.pipe()
        self._stopping = False
        self._code = 0

    def run(self) -> int:
        """Until all have ended; returns the exit code."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)
        begin = time.monotonic()
        for index in range(self._size):
            self._start(is_first=index == 0)
        while self._workers:
            worker, status = os.wait()
            self._workers.discard(worker)
            if not self._stopping:
                self._replace(worker, status, early=time.monotonic() - begin < _EARLY_SECONDS)
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
            os.close(self._life)
            Thread(target=self._end_with_parent, daemon=True).start()
            self._work(is_first)
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        finally:
            os._exit(code)

    def _end_with_parent(self) -> None:
        """A worker that nobody can stop any more would hold the port for ever."""
        os.read(self._watched, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    def _replace(self, worker: int, status: int, *, early: bool) -> None:
        code = os.waitstatus_to_exitcode(status)
        if early and code > 0:
            self._code = code
            self._stop(signal.SIGTERM, None)
            return
        _log.error("worker %d ended with code %d; another takes its place", worker, code)
        time.sleep(_PAUSE_SECONDS)
        if not self._stopping:
            self._start(is_first=False)

    def _stop(self, number: int, _: FrameType | None) -> None:
        self._stopping = True
        # The workers close it, too. Who comes then is refused; as long as we had it open, he would
        # wait for an answer that nobody gives, and not know what became of his request.
        self._listening.close()
        for worker in self._workers:
            os.kill(worker, number)
